"""`when`: only a real boolean false lets an action pass."""

import math
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.expression import MAX_LENGTH, Subject, compile_pattern, compile_when, matches_from_start
from agent.domain.rules import Rule
from signoff.canonical import canonical_bytes, parse_canonical
from tests.patience import promised


def holds(text, args=None, facts=None, agent="refunds", requester="U1"):
    return compile_when(text).applies(Subject(args or {}, facts, agent, requester))


@pytest.mark.parametrize(
    ("price", "expected"), [(1500, True), (1500.5, True), (1000, False), (999.99, False)]
)
@pytest.mark.parametrize("limit", ["1000.0", "1000"])
def test_whole_and_fractional_numbers_compare_by_value(price, expected, limit):
    """A price compares with a limit whether either is written as an integer or a fraction."""
    assert holds(f"facts.price > {limit}", facts={"price": price}).applies is expected


@given(st.floats(0, 1e6))
def test_the_canonical_form_of_a_number_does_not_change_the_answer(price):
    """A price that canonical JSON has turned into an integer (1500.0 is 1500) is judged as before."""
    read_back = parse_canonical(canonical_bytes({"price": price}))
    assert holds("facts.price > 1000.0", facts=read_back).applies is (price > 1000.0)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("facts.price > 1000.0", None),
        ("facts.price > 1000.0", {}),
        ("facts.price > 1000.0", {"price": "low"}),
        ("facts.price > 1000.0", {"price": None}),
        ("facts.price > 1000.0", {"price": math.nan}),
        ("facts.price > 1000.0", {"price": 10**30}),
        ("facts.price > 1000.0", {"price": object()}),
        ("1 / facts.zero > 1", {"zero": 0}),
        ("facts.list[5] == 1", {"list": []}),
        ("facts.text.matches('x')", {"text": 5}),
        ("facts.price", {"price": 0}),
        ("facts.price", {"price": None}),
        ("facts.price", {"price": ""}),
        ("'false'", {}),
        ("[false]", {}),
    ],
)
def test_doubt_applies(text, facts):
    """An error, a missing field, a value out of range or a result that is no boolean means: ask."""
    result = holds(text, facts=facts)
    assert result.applies
    assert text in result.because


def test_a_failure_is_told_in_plain_words():
    """A value of another type than a condition expects is named as that, not by the library's sentence."""
    assert "such as a number compared with a text" in holds("args.x > 5", {"x": "7"}).because
    assert "size was called with a value of another type" in holds("size(args.x) > 1", {"x": 5}).because


def test_only_false_does_not_apply():
    """A real false lets the action pass to the next rule, and is reported."""
    assert holds("false").applies is False
    assert "is false" in holds("false").because
    assert holds("true").applies is True


def test_all_four_variables_can_be_read():
    """A condition sees the arguments, the facts, the agent's name and the requester, who may be nobody."""
    text = "args.id == 7 && facts.price == 1 && agent == 'refunds' && requester == null"
    assert "is true" in holds(text, {"id": 7}, {"price": 1}, requester=None).because


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("facts.price >", "column 14"),
        ("facts.price >\n  1 +", "line 2, column 6"),
        ("fact.price > 1", 'unknown variable "fact"'),
        ("siez(args.items) > 1", 'unknown function "siez"'),
        ("", "column 1"),
        ("x" * (MAX_LENGTH + 1), "longer than"),
    ],
)
def test_broken_conditions_are_refused_at_load(text, problem):
    """A condition that could never be evaluated is refused with its place, not discovered at run time."""
    with pytest.raises(ValueError, match=re.escape(problem)):
        compile_when(text)


def test_loops_bind_their_own_names():
    """The variable of a loop is not mistaken for an unknown one, and loops work."""
    assert holds("args.items.exists(item, item.price > 10)", {"items": [{"price": 11}]}).applies
    assert not holds("args.items.exists(item, item.price > 10)", {"items": [{"price": 9}]}).applies


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("args.l.all(x, args.l.all(y, x + y >= 0)) == false", 20_000),
        ("args.l.map(x, x + 1).size() < 0", 40_000),
        ("args.l.all(x, x in args.l) == false", 40_000),
    ],
)
def test_an_evaluation_that_would_take_too_long_applies_at_once(text, size):
    """Arguments made large on purpose cannot hold up the service: the work is bounded, and doubt asks."""
    when = compile_when(text)
    started = time.monotonic()
    result = when.applies(Subject({"l": list(range(size))}, None, "a", None))
    assert result.applies
    assert "too long" in result.because
    assert time.monotonic() - started < promised(2)


def test_a_regular_expression_cannot_run_away():
    """A pattern that makes backtracking engines hang is matched in linear time."""
    started = time.monotonic()
    assert not holds("args.x.matches('(a+)+$')", {"x": "a" * 50_000 + "b"}).applies
    assert time.monotonic() - started < promised(2)


def test_a_pattern_for_names_cannot_run_away():
    """`action_pattern` is matched in linear time; what could not be is refused when the file is read."""
    started = time.monotonic()
    assert not matches_from_start("(a+)+$", "a" * 50_000 + "b")
    checkpoint = Rule(checkpoint_id="c", action_pattern="(a+)+$", on_reject="stop")
    assert not checkpoint.names("a" * 28 + "b")
    assert matches_from_start("delete_*", "delete_records")
    assert not matches_from_start("b|c", "ab")
    assert time.monotonic() - started < promised(2)
    for pattern in (r"(a)\1", "(?=a)a", "(?<!a)b", "(a{1000}){1000}", "a)|(?:b"):
        with pytest.raises(ValueError, match=r"\w"):
            compile_pattern(pattern)


@pytest.mark.parametrize(
    "text",
    [
        "nans",
        "NaNs",
        "infh",
        "-infs",
        "1e3s",
        "1h?",
        "1hx",
        "1h 2",
        "",
        "s",
        "h1",
        "٣s",
        "1",
        "1ns",
        "9" * 15 + "h",
    ],
)
@pytest.mark.parametrize(
    "condition",
    [
        "duration(args.x) > duration('1s')",
        "duration(args.x) < duration('1s')",
        "duration(args.x) == duration('1s')",
        "args.x.duration() > duration('1s')",
        "args.y == r'\\' || duration (args.x) > duration('1s') // it's",
    ],
)
def test_what_is_no_length_of_time_is_asked(condition, text):
    """No text that the grammar of CEL does not have makes a condition false."""
    assert holds(condition, {"x": text, "y": ""}).applies


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90m", 5400),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("-1s", -1),
        ("+250ms", 0.25),
        (".5s", 0.5),
        ("1us", 1e-6),
        ("0", 0),
    ],
)
def test_lengths_of_time_are_compared_exactly(text, seconds):
    """What the grammar has is that length of time; in a string the word is a word."""
    assert holds(
        "args.y == 'duration(1)' && duration(args.x) == duration(args.z)",
        {"x": text, "y": "duration(1)", "z": f"{seconds * 1_000_000:.0f}us"},
    ).because.endswith("is true")


def test_one_condition_serves_many_threads():
    """The same compiled condition gives each thread the answer to its own question."""
    when = compile_when("facts.price > 1000.0 && args.n >= 0")

    def ask(n: int) -> bool:
        return when.applies(Subject({"n": n}, {"price": 1000 + n % 2}, "a", None)).applies is bool(n % 2)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(2000)))


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5)
)
def test_nothing_that_a_tool_returns_makes_it_raise(value):
    """Whatever the facts are, there is an answer, and passing needs a number that is really not above."""
    result = holds("facts.price > 1000.0", facts={"price": value})
    known = isinstance(value, int | float) and not isinstance(value, bool) and value <= 1000.0
    assert result.applies or known

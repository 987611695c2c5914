"""Limits over time as a pure rule: what an action takes, for whom, and whether there is room."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.checkpoints import load
from agent.domain.errors import PolicyError
from agent.domain.judgement import ToolTraits
from agent.domain.limits import Caller, Limit, LimitState, LimitView, Use, add, decisive, length, written
from agent.domain.policy import Policy
from agent.domain.rules import Defaults, Rule
from agent.domain.tool_outline import explain
from signoff.values import Action, Person, Risk

DAY = timedelta(days=1)
ADA = Person("T1", "U0ADA")
numbers = st.one_of(st.integers(0, 2**53), st.floats(0, 1e308))


def limit(**changes: Any) -> Limit:
    return replace(Limit("refunds", "refund", "facts.price", "all", DAY, Decimal(5000)), **changes)


def state(amount: Any, used: Any = 0, waiting: Any = 0, **changes: Any) -> LimitState:
    use = Use(limit(**changes), "all", None if amount is None else Decimal(amount))
    return LimitState(use, Decimal(used), Decimal(waiting))


def refund(**arguments: Any) -> Action:
    return Action("refund", "1", arguments)


@given(st.lists(numbers, max_size=20), numbers, numbers, st.sampled_from(["ask", "deny"]))
def test_it_runs_only_what_fits_exactly(before: list[float], amount: float, most: float, then: str) -> None:
    """Held against fractions: what is used and what is added never exceed the maximum, and nothing is rounded."""
    exact = [Decimal(repr(each)) for each in before]
    found = state(repr(amount), used=add(*exact), max=Decimal(repr(most)), then=then)
    total = sum(map(Fraction, exact), Fraction(Decimal(repr(amount))))
    assert (found.verdict == "run") == (total <= Fraction(Decimal(repr(most))))
    assert found.verdict in ("run", then)


@pytest.mark.parametrize(
    ("used", "waiting", "then", "verdict"),
    [
        (4000, 0, "deny", "run"),
        (4001, 0, "deny", "deny"),
        (4001, 0, "ask", "ask"),
        (0, 4001, "deny", "ask"),
        (3000, 1001, "deny", "ask"),
        (6000, 0, "ask", "ask"),
    ],
)
def test_what_waits_can_make_it_ask_and_never_deny(used: int, waiting: int, then: str, verdict: str) -> None:
    """Only what is used denies; what people may yet reject makes them be asked."""
    assert state(1000, used, waiting, then=then).verdict == verdict


def test_the_strictest_of_several_decides() -> None:
    """A limit that denies comes before one that asks, and either before those with room."""
    run, asks, denies = state(1), state(None), state(9000, then="deny")
    assert decisive([run, asks, denies]) is denies
    assert decisive([run, asks]) is asks
    assert decisive([run]) is None


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        (12, "12"),
        (0.1, "0.1"),
        (1e22, "1e22"),
        (0, "0"),
        (-0.0, "0"),
        (-1, None),
        (math.nan, None),
        (math.inf, None),
        (-math.inf, None),
        (True, None),
        ("12", None),
        (None, None),
        ([12], None),
        ({"price": 12}, None),
    ],
)
def test_which_values_are_amounts(value: Any, amount: str | None) -> None:
    """A JSON number from 0 is an amount, digit by digit; any other value, or none, cannot be counted."""
    found = limit().amount(refund(), {"price": value})
    assert found == (None if amount is None else Decimal(amount))
    assert found is None or not found.is_signed()


def test_where_an_amount_stands() -> None:
    """In a fact or an argument at any depth; what is missing on the way cannot be counted, and a call is one."""
    nested = limit(of="args.order.amount")
    assert nested.amount(refund(order={"amount": 3}), None) == 3
    assert nested.amount(refund(order=3), None) is None
    assert limit().amount(refund(price=3), None) is None
    assert limit(of="count").amount(refund(), None) == 1


def test_subjects_are_never_mixed_up() -> None:
    """An agent, a requester and everybody are distinct subjects, whatever an agent's name is."""
    names = {
        limit(per=per).subject(Caller(agent, who))
        for per in ("agent", "requester", "all", "key")
        for agent in ("all", "requester:nobody", "key:crm")
        for who in (ADA, Person("T2", ADA.user_id), None)
    }
    assert len(names) == 3 + 3 + 1


@pytest.mark.parametrize(
    ("per", "caller", "subject"),
    [
        ("agent", Caller("billing", ADA, "key:crm", names_agent=True), "key:crm"),
        ("agent", Caller("billing", ADA, "key:crm"), "agent:billing"),
        ("agent", Caller("key:crm", ADA), "agent:key:crm"),
        ("requester", Caller("billing", ADA, "key:crm", names_agent=True), "requester:T1/U0ADA"),
        ("key", Caller("billing", ADA, "key:crm"), "key:crm"),
        ("key", Caller("billing", ADA), "requester:T1/U0ADA"),
        ("key", Caller("billing"), "requester:nobody"),
        ("all", Caller("billing", ADA, "key:crm"), "all"),
    ],
)
def test_a_subject_is_no_name_that_the_caller_chose(per: str, caller: Caller, subject: str) -> None:
    """A key that names its agents is one subject under all of them; runs without a key count for their requester."""
    assert limit(per=per).subject(caller) == subject
    assert Caller.of_principal("slack:/agent", "a", ADA).key is None


def test_the_verdict_of_policy_with_its_limits() -> None:
    """Only what would run is bounded; people are asked as the first checkpoint for the tool says, or by default."""
    dear = Rule(
        checkpoint_id="dear", action_pattern="refund", when="args.n > 10", on_reject="stop", risk="high"
    )
    traits = ToolTraits("refund", "1", risk=Risk.CRITICAL)
    for rules, asked_by in (((dear,), "dear"), ((), "limit_reached")):
        policy = Policy(rules, Defaults(unmatched="allow"), limits=(limit(of="args.n", max=Decimal(5)),))
        judged = policy.judge(traits, refund(n=6), None, "a", None)
        assert judged.verdict == "run"
        [use] = policy.uses(refund(n=6), None, Caller("a"))
        full = [LimitState(use, Decimal(0), Decimal(0))]
        bounded = policy.within_limits(judged, full, traits, refund(n=6))
        assert (bounded.verdict, bounded.rule and bounded.rule.checkpoint_id) == ("ask", asked_by)
        assert bounded.rule is not None
        assert bounded.rule.risk is Risk.CRITICAL
        assert 'limit "refunds": 0 of 5 used in 24h, and this takes 6 more' in bounded.because
        asked = policy.judge(ToolTraits("refund", "1", requires_approval=True), refund(n=60), None, "a", None)
        assert policy.within_limits(asked, full, traits, refund(n=60)) is asked


def test_the_file() -> None:
    """A limit is enforced as written, is part of the digest, and `signoff check` names it."""
    table = '[[limit]]\nname = "r"\naction_pattern = "refund"\nof = "count"\nper = "agent"\nwithin = "7d"\nmax = 0.5\n'
    policy = load(table, filename="checkpoints.toml")
    assert policy.limits == (Limit("r", "refund", "count", "agent", 7 * DAY, Decimal("0.5")),)
    assert policy.digest != Policy().digest
    assert policy.digest != load(table.replace("0.5", "0.6"), filename="checkpoints.toml").digest
    assert 'limit "r": 0.5 calls in 7d for each agent, then ask' in explain(policy, ToolTraits("refund", "1"))
    assert "limit" not in explain(policy, ToolTraits("other", "1"))


def test_what_cannot_be_enforced_is_refused() -> None:
    """Each problem is named with its line: unknown and missing keys, wrong values, a name that is used twice."""
    text = """
[[limit]]
name = "a b"
action_pattern = "("
of = "price"
per = "person"
within = "32d"
max = nan
than = "ask"
[[limit]]
[[limit]]
name = "r"
action_pattern = "refund"
of = "count"
per = "all"
within = "1h"
max = true
[[limit]]
name = "r"
action_pattern = "refund"
of = "facts.price"
per = "all"
within = "1h"
max = 1
[[limit]]
name = "r"
action_pattern = "refund"
of = "facts.price"
per = "all"
within = "1h"
max = 1
"""
    with pytest.raises(PolicyError) as caught:
        load(text, filename="c.toml")
    problems = caught.value.problems
    for expected in (
        'c.toml:3: limit "a b": "name" must be',
        'c.toml:4: limit "a b": "action_pattern" is not a regular expression',
        'c.toml:5: limit "a b": "of" must be "count", or',
        'c.toml:6: limit "a b": "per" must be one of',
        'c.toml:7: limit "a b": "within" must be at most 31d',
        'c.toml:8: limit "a b": "max" must be a number of 0 or more',
        'c.toml:9: limit "a b": unknown key "than" (did you mean "then"?)',
        'c.toml:10: limit #2: "max" is missing',
        'c.toml:17: limit "r": "max" must be a number of 0 or more',
        'c.toml:26: limit "r": the name is already used',
    ):
        assert any(line.startswith(expected) for line in problems), (expected, problems)


def test_how_amounts_and_windows_are_written() -> None:
    """Digits in groups, never rounded; what is stored with a request reads back as it was."""
    cases = {"4960.0": "4,960", "12.5": "12.5", "0.125": "0.125", "0": "0", "1e300": "1E+300"}
    assert {text: written(Decimal(text)) for text in cases} == cases
    windows = {"24h": DAY, "7d": 7 * DAY, "1h30m": timedelta(minutes=90), "90s": timedelta(seconds=90)}
    assert {length(each) for each in windows.values()} == {"24h", "7d", "1h30m", "1m30s"}
    shown = LimitView.read(state(1, "0.1", 3, max=Decimal("0.5")).shown)
    assert (shown.used, shown.waiting, shown.max, shown.reached) == (
        Decimal("0.1"), Decimal(3), Decimal("0.5"), True
    )  # fmt: skip

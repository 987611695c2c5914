"""When an approval covers the facts of now, and which facts are taken at all."""

from __future__ import annotations

from typing import Any

import pytest

from agent.domain.checkpoints import load
from agent.domain.errors import PolicyError
from agent.domain.facts import MAX_BYTES, ApprovedFacts, Facts, FactsSource, coverage, read_facts
from signoff.errors import MalformedArguments

PROGRAM, SIGNOFF = FactsSource.PROGRAM, FactsSource.SIGNOFF
CHEAP, DEAR = {"price": 10}, {"price": 1500}


def facts(values: dict[str, Any] | None, source: FactsSource | None = PROGRAM) -> Facts:
    return Facts(values, source=source)


@pytest.mark.parametrize(
    ("approved", "source", "age", "now", "are_read", "expected"),
    [
        (None, None, 999, None, True, "covered"),  # nobody ever told any
        (None, None, 0, facts(CHEAP), True, "changed"),  # people have not seen them
        (CHEAP, PROGRAM, 59, None, True, "covered"),
        (CHEAP, PROGRAM, 61, None, True, "needed"),
        (CHEAP, PROGRAM, 61, None, False, "covered"),  # no rule reads them
        (CHEAP, PROGRAM, 999, facts({"price": 10.0}), True, "covered"),  # the same number
        (CHEAP, PROGRAM, 0, facts(DEAR), False, "changed"),  # what is told is always compared
        (CHEAP, PROGRAM, 0, facts({**CHEAP, "note": "new"}), True, "changed"),
        (CHEAP, PROGRAM, 0, facts({}), True, "changed"),
        (CHEAP, PROGRAM, 0, Facts(failed=True, source=PROGRAM), True, "needed"),
        (None, PROGRAM, 0, None, False, "needed"),  # they were missing when people decided
        (None, PROGRAM, 0, facts(CHEAP), False, "changed"),
        (CHEAP, SIGNOFF, 0, None, False, "needed"),  # looked up for every claim
        (CHEAP, SIGNOFF, 999, facts(CHEAP, SIGNOFF), True, "covered"),
        (CHEAP, SIGNOFF, 0, Facts(failed=True, source=SIGNOFF), True, "needed"),
        (CHEAP, SIGNOFF, 0, facts(None, None), True, "changed"),  # policy looks them up no more
        (CHEAP, SIGNOFF, 0, facts(CHEAP), True, "needed"),  # the program's own do not replace them
        (CHEAP, SIGNOFF, 0, facts(DEAR), True, "needed"),
    ],
)
def test_an_approval_covers_just_the_facts_that_were_shown(
    approved: dict[str, Any] | None,
    source: FactsSource | None,
    age: float,
    now: Facts | None,
    are_read: bool,
    expected: str,
) -> None:
    """Other facts void it, missing or old ones hold it up, and nothing else lets it begin."""
    stored = ApprovedFacts(Facts(approved).canonical, source, age)
    assert coverage(stored, now, are_read=are_read) == expected


@pytest.mark.parametrize(
    ("values", "path"),
    [
        (["price"], "$"),
        ({"price": float("nan")}, "$.price"),
        ({"note": "a\0b"}, "$.note"),
        ({"n": 2**60}, "$.n"),
        ({"text": "x" * MAX_BYTES}, "$"),
    ],
)
def test_facts_that_nobody_could_compare_are_no_facts(values: Any, path: str) -> None:
    """What has no canonical form, is no object or is too large is refused with its place."""
    with pytest.raises(MalformedArguments) as refused:
        read_facts(values, PROGRAM)
    assert refused.value.path == path


def test_a_deep_tree_of_facts_is_refused() -> None:
    """More levels than arguments may have are too many for facts, too."""
    deep: dict[str, Any] = {}
    for _ in range(70):
        deep = {"deeper": deep}
    with pytest.raises(MalformedArguments, match="nested deeper"):
        read_facts(deep, PROGRAM)


@pytest.mark.parametrize(
    ("rule", "reads"),
    [
        ("when = 'facts.price > 1000.0'", True),
        ("description_template = 'Refund {facts.price}'", True),
        ("link_template = 'https://shop.example/{facts.id}'", True),
        ("when = 'args.price > 1000.0'", False),
        ("", False),
    ],
)
def test_policy_knows_which_tools_have_rules_that_read_facts(rule: str, reads: bool) -> None:
    """By the condition or a template of any rule that names the tool."""
    text = f"[[checkpoint]]\ncheckpoint_id = 'refunds'\naction_pattern = 'refund'\n{rule}\n"
    policy = load(text, filename="checkpoints.toml")
    assert (policy.reads_facts("refund"), policy.reads_facts("read")) == (reads, False)


def test_how_old_told_facts_may_be_is_a_key_of_policy() -> None:
    """A request's snapshot contains it only if it is set."""
    text = "[[checkpoint]]\ncheckpoint_id = 'refunds'\naction_pattern = 'refund'\n"
    plain, longer = (load(text + more, filename="c.toml").rules[0] for more in ("", "facts_max_age = '10m'"))
    assert "facts_max_age" not in plain.snapshot()
    assert longer.snapshot()["facts_max_age"] == 600.0


LOOKUP = '[[facts]]\ntool = "refund"\nurl = "https://shop.example/facts"\n'


def test_a_table_of_facts_names_a_tool_and_an_address() -> None:
    """Policy knows where to look, for that tool only, and its digest includes it; without a source it is unchanged."""
    policy, without = load(LOOKUP, filename="c.toml"), load("", filename="c.toml")
    found = policy.lookup("refund")
    assert found is not None
    assert (found.url, policy.lookup("refunds")) == ("https://shop.example/facts", None)
    assert policy.digest != without.digest
    assert policy.digest != load(LOOKUP.replace("shop", "other"), filename="c.toml").digest


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (LOOKUP + "secret = 'x'\n", 'c.toml:4: facts #1: unknown key "secret" (there are: tool, url)'),
        ('[[facts]]\ntool = "refund"\n', 'c.toml:1: facts #1: "url" is missing'),
        (LOOKUP.replace("refund", "re fund"), 'c.toml:2: facts #1: "tool" must be the name of one tool'),
        (
            LOOKUP.replace("https://shop.example", "https://u:p@shop"),
            'c.toml:3: facts #1: "url" must not contain a user or a password; webhooks are signed instead',
        ),
        (
            LOOKUP.replace("https://shop.example", "http://169.254.169.254"),
            'c.toml:3: facts #1: "url" leads to 169.254.169.254, a cloud metadata address',
        ),
        (LOOKUP + LOOKUP, 'c.toml:5: facts #2: "tool" names refund, as an earlier table does'),
        ("[facts]\ntool = 'x'\n", "c.toml:1: facts #1: write [[facts]], with two brackets"),
    ],
)
def test_a_table_of_facts_that_cannot_be_enforced_is_refused(text: str, problem: str) -> None:
    """With the line, and what is wrong with it."""
    with pytest.raises(PolicyError) as refused:
        load(text, filename="c.toml")
    assert refused.value.problems == [problem]


def test_without_a_secret_nothing_can_be_looked_up() -> None:
    """Posts are signed, so that the receiver knows who asks."""
    with pytest.raises(PolicyError, match="facts #1: cannot be enforced: set SIGNOFF_FACTS_SECRET"):
        load(LOOKUP, filename="c.toml", no_lookups="set SIGNOFF_FACTS_SECRET")

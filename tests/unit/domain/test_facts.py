"""Which facts of programs are accepted."""

from __future__ import annotations

from typing import Any

import pytest

from agent.domain.checkpoints import load
from agent.domain.errors import PolicyError
from agent.domain.facts import MAX_BYTES, FactsSource, read_facts
from signoff.errors import MalformedArguments

PROGRAM, SIGNOFF = FactsSource.PROGRAM, FactsSource.SIGNOFF


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
    """A request's snapshot contains it, in seconds, and is read back as it was."""
    text = "[[checkpoint]]\ncheckpoint_id = 'refunds'\naction_pattern = 'refund'\n"
    plain, longer = (load(text + more, filename="c.toml").rules[0] for more in ("", "facts_max_age = '10m'"))
    assert plain.snapshot()["facts_max_age"] == plain.facts_max_age.total_seconds()
    assert longer.snapshot()["facts_max_age"] == 600.0
    assert type(longer).from_snapshot(longer.snapshot()) == longer


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

"""What a condition reads, for people who want to know why they are asked."""

from __future__ import annotations

import pytest

from agent.domain.explanation import explain_rule, paths_read
from agent.domain.judgement import Inputs, ToolTraits
from agent.domain.rules import Rule
from signoff.values import Action


@pytest.mark.parametrize(
    ("when", "read"),
    [
        ("facts.price > 1000.0", ["facts.price"]),
        ("args.a.b == 1 && args.a.b < facts.limit", ["args.a.b", "facts.limit"]),
        ("args.note.startsWith('args.x')", ["args.note"]),
        ("args.items[0].count > 2 // facts.price", ["args.items[0].count"]),
        ("has(args.secret) || agent == 'args.y'", ["args.secret", "agent"]),
        ("size(args.rows) > 3 && requester != null", ["args.rows", "requester"]),
        ("args.rows.exists(r, r.args.z > 1)", ["args.rows"]),
        ("true", []),
    ],
)
def test_what_a_condition_reads(when: str, read: list[str]) -> None:
    """Each path once, without the names of functions and what stands in texts and comments."""
    assert paths_read(when) == read


def test_a_rule_alone_says_why_it_catches() -> None:
    """As `signoff check explain` words it; a rule for other tools says nothing."""
    rule = Rule(checkpoint_id="large", action_pattern="pay$", when="args.amount > 5", on_reject="stop")
    said = {
        tool: explain_rule(
            rule, Inputs(ToolTraits(tool, "1"), Action(tool, "1", {"amount": 7}), None, "a", None)
        )
        for tool in ("pay", "ship")
    }
    assert said["ship"] is None
    assert said["pay"] is not None
    assert (said["pay"].result, said["pay"].why) == ("catches it", "when (args.amount > 5) is true")

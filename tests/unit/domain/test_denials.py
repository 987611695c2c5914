"""Checkpoints that deny: what they catch never runs, nobody is asked, and nothing gets past them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.checkpoints import load
from agent.domain.errors import PolicyError
from agent.domain.judgement import Inputs, Judgement, ToolTraits
from agent.domain.limits import Caller, Limit, LimitState
from agent.domain.policy import Policy
from agent.domain.replay import RecordedJudgement, Totals, replay
from agent.domain.rules import Defaults, Denial, Rule
from agent.domain.tool_outline import explain
from agent.runtime.agents import Registry
from agent.runtime.checks.policy_lint import lint_policy
from signoff.values import Action
from tests.doc_blocks import ROOT

NEVER = Denial(
    checkpoint_id="never", action_pattern="pay", when="facts.price > 10000.0", because="The bank does that."
)
LARGE = Rule(checkpoint_id="large", action_pattern="pay", when="facts.price > 1000.0", on_reject="stop")
ALWAYS = Rule(checkpoint_id="always", action_pattern="pay", on_reject="stop")
ALLOW = Defaults(unmatched="allow")


def judge(
    policy: Policy, price: object = 5, tool: str = "pay", *, facts_failed: bool = False, **traits: Any
) -> Judgement:
    action, facts = Action(tool, "1", {"order_id": 7}), None if price is None else {"price": price}
    return policy.judge(
        ToolTraits(tool, "1", **traits), action, facts, "shop", "U1", facts_failed=facts_failed
    )


def read(text: str) -> Policy:
    return load(text, filename="checkpoints.toml")


@pytest.mark.parametrize("rules", [(), (ALWAYS,), (LARGE, ALWAYS)])
@pytest.mark.parametrize("unmatched", ["review", "allow", "deny"])
@pytest.mark.parametrize("traits", [{}, {"read_only": True}, {"requires_approval": True}])
def test_what_it_catches_is_denied_whatever_else_the_policy_says(
    rules: tuple[Rule, ...], unmatched: Any, traits: dict[str, Any]
) -> None:
    """No other checkpoint, default or option of the tool comes before it; the model reads the operator's words."""
    policy = Policy(rules, Defaults(unmatched=unmatched), denials=(NEVER,))
    judged = judge(policy, 10001, **traits)
    assert (judged.verdict, judged.rule, judged.checkpoint_id) == ("deny", None, "never")
    assert judged.told == "The bank does that"
    assert "facts.price > 10000.0" in judged.because


@given(
    price=st.one_of(st.none(), st.floats(), st.integers(), st.text(), st.booleans()),
    unmatched=st.sampled_from(["review", "allow", "deny"]),
    rules=st.sampled_from([(), (LARGE,), (ALWAYS,), (LARGE, ALWAYS)]),
    facts_failed=st.booleans(),
    read_only=st.booleans(),
)
def test_one_that_is_false_changes_nothing(
    price: object, unmatched: Any, rules: tuple[Rule, ...], facts_failed: bool, read_only: bool
) -> None:
    """With a false condition, a denying checkpoint frees nothing: the verdict is that of the file without it."""
    without = Policy(rules, Defaults(unmatched=unmatched))
    with_it = Policy(rules, Defaults(unmatched=unmatched), denials=(NEVER,))
    judged = judge(with_it, price, facts_failed=facts_failed, read_only=read_only)
    if judged.denial is None:
        assert judged == judge(without, price, facts_failed=facts_failed, read_only=read_only)
    else:
        number = isinstance(price, int | float) and not isinstance(price, bool) and -(2**53) < price <= 10000
        assert facts_failed or not number  # JSON has no infinities and no larger integers


@pytest.mark.parametrize("price", [None, "5", True, [], float("nan")])
def test_in_doubt_it_denies(price: object) -> None:
    """A missing field, another type or an error in its condition denies."""
    assert judge(Policy((), ALLOW, denials=(NEVER,)), price).verdict == "deny"


@pytest.mark.parametrize(
    ("when", "verdict"),
    [("facts.price > 1.0", "deny"), ("has(facts.price)", "deny"), ("args.order_id > 7", "ask")],
)
def test_failed_facts_deny_where_the_condition_reads_facts(when: str, verdict: str) -> None:
    """Facts that could not be looked up deny if the condition is about facts, and are asked about otherwise."""
    denial = Denial(checkpoint_id="never", action_pattern="pay", when=when)
    assert judge(Policy((), ALLOW, denials=(denial,)), facts_failed=True).verdict == verdict


def test_a_limit_asks_under_no_denying_checkpoint() -> None:
    """Where a limit has no room, people are asked under the defaults: a denying checkpoint lends it no terms."""
    one = Limit("calls", "pay", "count", "all", timedelta(days=1), Decimal(1))
    policy = Policy((), ALLOW, limits=(one,), denials=(NEVER,))
    traits, action = ToolTraits("pay", "1"), Action("pay", "1", {"order_id": 7})
    for price, verdict, checkpoint in ((5, "ask", "limit_reached"), (10001, "deny", "never")):
        uses = policy.uses(action, {"price": price}, Caller("shop"))
        full = [LimitState(each, Decimal(1), Decimal(0)) for each in uses]
        judged = policy.within_limits(judge(policy, price), full, traits, action)
        assert (judged.verdict, judged.checkpoint_id) == (verdict, checkpoint)


def test_a_replay_finds_what_would_be_denied() -> None:
    """What people were asked about, and what a new denying checkpoint would deny, counts as changed."""
    asked = judge(Policy((ALWAYS,)), 10001)
    assert asked.inputs is not None
    at = datetime(2026, 11, 1, tzinfo=UTC)
    recorded = RecordedJudgement(UUID(int=1), at, asked.inputs, "ask", "always", UUID(int=2), "approved")
    totals = Totals()
    [changed] = replay(Policy((ALWAYS,), denials=(NEVER,)), [recorded], totals)
    assert (changed.verdict, changed.checkpoint_id) == ("deny", "never")
    assert totals.said == {("deny", "approved"): 1}


def test_without_words_of_the_operator_the_model_reads_its_name() -> None:
    """The condition stays in the log, because it would say how to get around it."""
    denial = Denial(checkpoint_id="never", action_pattern="pay", when="args.order_id == 7")
    judged = judge(Policy((), ALLOW, denials=(denial,)))
    assert judged.told == 'checkpoint "never" denies this'
    assert "args.order_id == 7" in judged.because


def test_facts_are_read_for_it() -> None:
    """A program must send facts again that only a denying checkpoint reads."""
    policy = Policy(denials=(NEVER,))
    assert policy.reads_facts("pay")
    assert not policy.reads_facts("other")


SMALL = Rule(checkpoint_id="small", action_pattern="pay", when="args.order_id < 7", on_reject="stop")
DENY_UNMATCHED = Defaults(unmatched="deny")
LATER: dict[str, Any] = {"facts_failed": True, "requires_approval": True}
ORDER: list[tuple[int, Policy, dict[str, Any], str | None]] = [
    (1, Policy((ALWAYS,), DENY_UNMATCHED, denials=(NEVER,)), LATER, "never"),
    (1, Policy((), DENY_UNMATCHED, denials=(NEVER,)), {"price": 10001, "read_only": True}, "never"),
    (2, Policy((SMALL, ALWAYS, LARGE), DENY_UNMATCHED), LATER, "always"),
    (2, Policy((SMALL, ALWAYS), ALLOW), {"read_only": True}, "always"),
    (3, Policy((), DENY_UNMATCHED), LATER, "requires_approval"),
    (3, Policy((SMALL,), ALLOW), LATER, "requires_approval"),
    (3, Policy((), ALLOW), {"requires_approval": True, "read_only": True}, "requires_approval"),
    (4, Policy((), DENY_UNMATCHED), {"facts_failed": True}, None),
    (4, Policy((), DENY_UNMATCHED, denials=(NEVER,)), {}, None),
    (5, Policy((SMALL,), DENY_UNMATCHED), {"facts_failed": True}, "facts_failed"),
    (5, Policy((), DENY_UNMATCHED), {"facts_failed": True, "read_only": True}, "facts_failed"),
    (5, Policy((), ALLOW), {"facts_failed": True}, "facts_failed"),
    (6, Policy((SMALL,), DENY_UNMATCHED), {}, None),
    (7, Policy((), DENY_UNMATCHED), {"read_only": True}, None),
    (7, Policy((), ALLOW, denials=(NEVER,)), {}, None),
    (8, Policy((), denials=(NEVER,)), {}, "unmatched"),
]
"""Calls that no earlier line of the table in docs/policy.md catches, and later ones would; the checkpoint named."""


def lines() -> dict[int, str]:
    text = Path(ROOT, "docs/policy.md").read_text()
    table = text.split("| order | if | then |")[1].split("\n\n")[0]
    return {int(row[1]): row[2] for row in re.finditer(r"^\| (\d+) \|.*\| ([^|]+) \|$", table, re.MULTILINE)}


def test_the_documentation_has_the_order_of_evaluation() -> None:
    """Each line of the table in docs/policy.md decides before all later ones that fit, too."""
    found: list[tuple[int, str, str | None]] = []
    for number, policy, call, _ in ORDER:
        judged = judge(policy, **call)
        own = judged.rule is not None and judged.rule in policy.rules
        asked = "asked under that checkpoint" if own else "asked under the defaults"
        outcome = {"deny": "denied", "run": "runs", "ask": asked}[judged.verdict]
        found.append((number, outcome, judged.checkpoint_id))
    table = lines()
    assert found == [(number, table[number], name) for number, _, _, name in ORDER]
    assert {number for number, *_ in ORDER} == table.keys()


DENY = """
[[checkpoint]]
checkpoint_id = "never"
action_pattern = "pay"
verdict = "deny"
"""


def test_a_file_denies_by_its_verdict() -> None:
    """`verdict`, `when` and `because` are read and have a part in the digest; observed checkpoints keep their place."""
    text = (
        """
[[checkpoint]]
checkpoint_id = "seen"
action_pattern = "pay"
mode = "observe"
observe_until = 2026-12-20
"""
        + DENY
        + 'when = "args.n > 1"\nbecause = "No."\n'
        + """
[[checkpoint]]
checkpoint_id = "asked"
action_pattern = "pay"
verdict = "ask"
"""
    )
    policy = read(text)
    assert [each.checkpoint_id for each in policy.in_file_order] == ["seen", "never", "asked"]
    assert [(each.when, each.because) for each in policy.denials] == [("args.n > 1", "No.")]
    others = (text.replace('"No."', '"Never."'), text.replace("args.n > 1", "args.n > 2"))
    assert len({policy.digest, *(read(each).digest for each in others)}) == 3
    inputs = Inputs(ToolTraits("pay", "1"), Action("pay", "1", {"n": 2}), None, "shop", None)
    [observation] = policy.observations(inputs)
    assert (observation.applies, observation.verdict) == (True, "deny")


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ('approvers = ["U0ADA"]', '"approvers" is about asking people, and verdict = "deny" asks nobody'),
        ("timeout = 60", '"timeout" is about asking people, and verdict = "deny" asks nobody'),
        ('risk = "high"', '"risk" is about asking people, and verdict = "deny" asks nobody'),
        ('mode = "observe"', '"mode" is not used with verdict = "deny"'),
        ("because = 7", '"because" must be a text that is not empty'),
        (f'because = "{"x" * 501}"', '"because" must have at most 500 characters'),
        ('when = "args.n >"', '"when" is not a condition'),
        ('becuase = "No."', 'unknown key "becuase" (did you mean "because"?)'),
    ],
)
def test_a_key_without_effect_is_refused(more: str, problem: str) -> None:
    """A denying checkpoint takes no key that it would not use."""
    with pytest.raises(PolicyError) as refused:
        read(DENY + more)
    assert f'checkpoints.toml:6: checkpoint "never": {problem}' in str(refused.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (DENY.replace("deny", "no"), '"verdict" must be one of ask, deny'),
        (DENY.replace('verdict = "deny"', 'because = "No."'), '"because" is used only with verdict = "deny"'),
        ('[defaults]\nverdict = "deny"', '"verdict" belongs in a [[checkpoint]]'),
        (DENY + DENY, "the id is already used in line 3"),
    ],
)
def test_a_mistake_is_named(text: str, problem: str) -> None:
    """A verdict that does not exist, a reason without a denial, and a repeated id are refused."""
    with pytest.raises(PolicyError, match=re.escape(problem)):
        read(text)


def test_the_outline_of_a_tool_says_what_is_denied_first() -> None:
    """`signoff check` lists a denying checkpoint before the others."""
    policy = Policy((LARGE,), denials=(NEVER,))
    assert explain(policy, ToolTraits("pay", "1")) == (
        'pay: denied under "never" when facts.price > 10000.0, else people are asked under "large" when '
        "facts.price > 1000.0, else runs"
    )
    always = Denial(checkpoint_id="never", action_pattern="pay")
    assert explain(Policy((LARGE,), denials=(always,)), ToolTraits("pay", "1")) == 'pay: denied under "never"'


@pytest.mark.parametrize(
    ("pattern", "when", "warning"),
    [
        (".*", "args.path == '/'", "each call without it is denied; write has(args.path) && … to deny only"),
        (".*", "has(args.path) && args.path == '/'", None),
        ("delete_", "args.path == '/'", None),
        (
            "Bash",
            "args.command.contains('rm -rf')",
            "a guard rail and not a wall: `rm -rf` can be written `rm -r -f`",
        ),
        ("Bash", "args.command == 'rm -rf /'", "a guard rail and not a wall"),
        ("Bash", "args.path == '/'", None),
    ],
)
def test_check_warns_of_what_denies_more_or_less_than_it_seems(
    pattern: str, when: str, warning: str | None
) -> None:
    """A broad pattern without `has()` denies every call that lacks the field; a command's text is no wall."""
    text = DENY.replace('"pay"', f'"{pattern}"') + f'when = "{when}"\n'
    found = lint_policy(read(text), Registry(), "checkpoints.toml")
    if warning is None:
        assert found == []
    else:
        [line] = found
        assert line.startswith('checkpoints.toml:6: checkpoint "never": ')
        assert warning in line

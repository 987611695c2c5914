"""Why policy asks about an action: the checkpoints that name it, in words, and what a condition reads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import UUID

from agent.domain.condition_text import HIDDEN
from agent.domain.judgement import Inputs
from agent.domain.policy import Policy
from agent.domain.rules import Checkpoint, Denial, Rule

_READ = re.compile(
    r"(?<![\w.])(?:(?P<root>args|facts)(?P<path>(?:\.[A-Za-z_]\w*(?![\w(]|\s+\()|\[\d+\])*)(?![\w])|(?P<name>agent|requester)\b)"
)


@dataclass(frozen=True, slots=True)
class ExplainedCheckpoint:
    """One checkpoint as it applies to an action: its result, and what of its rule made it so."""

    checkpoint_id: str
    result: str
    why: str


@dataclass(frozen=True, slots=True)
class UnfitGrant:
    """A live grant and why it does not cover a call, with the audience that may know of it."""

    id: UUID
    because: str
    team_id: str
    channel_id: str
    approvers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WhyAsked:
    """``rule``: None for one that nobody wrote. ``others`` and ``grants`` are of now, while people have to decide."""

    rule: ExplainedCheckpoint | None
    others: tuple[ExplainedCheckpoint, ...] = ()
    grants: tuple[UnfitGrant, ...] = ()


def explain(policy: Policy, given: Inputs) -> list[ExplainedCheckpoint]:
    """The checkpoints that name the tool, in the order in which they are tried."""
    explained, caught = [], False
    for each, applies, because in policy.explain(given):
        catches = "denies it" if isinstance(each, Denial) else "catches it"
        result = "does not apply" if not applies else "would also catch it" if caught else catches
        explained.append(ExplainedCheckpoint(each.checkpoint_id, result, _why(each, because)))
        caught = caught or applies
    return explained


def explain_rule(rule: Rule, given: Inputs) -> ExplainedCheckpoint | None:
    """The rule alone; None if it does not name the tool."""
    return next(iter(explain(Policy(rules=(rule,)), given)), None)


def paths_read(when: str) -> list[str]:
    """`facts.price`, `args.items[0].count`, `agent`: what stands in a condition, each once."""
    code = HIDDEN.sub(lambda found: " " * len(found[0]), when)
    found = (each["name"] or f"{each['root']}{each['path']}" for each in _READ.finditer(code))
    return list(dict.fromkeys(found))


def _why(checkpoint: Checkpoint, because: str) -> str:
    named = because.partition(f'checkpoint "{checkpoint.checkpoint_id}"')[2]
    return named.removeprefix(": ") or "it has no condition"

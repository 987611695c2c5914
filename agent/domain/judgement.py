"""What policy says of one action, and what that rests on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from agent.domain.expression import Subject
from agent.domain.observation import Observation
from agent.domain.rules import Rule
from signoff.values import Action, Risk

Ruling = Literal["run", "ask", "deny"]


@dataclass(frozen=True)
class ToolTraits:
    """What a tool says of itself where it is defined."""

    name: str
    version: str
    requires_approval: bool = False
    risk: Risk | None = None
    read_only: bool = False
    exempt: str = "is read-only"
    """Why `unmatched` does not hold for one that is `read_only` in the eyes of policy, as a phrase."""


@dataclass(frozen=True)
class Judgement:
    """What policy says of one action. `rule` is set for "ask"; `because` is a phrase for the record."""

    verdict: Ruling
    rule: Rule | None
    because: str
    description: str
    epoch: int = 0
    """Of the policy that says so."""
    inputs: "Inputs | None" = field(default=None, compare=False)
    observed: tuple[Observation, ...] = field(default=(), compare=False)
    """What observed checkpoints would have made of it."""
    rejected: UUID | None = field(default=None, compare=False)
    """The request in which people rejected this exact action. The card shows it."""
    ruled: tuple[Ruling, str | None] | None = field(default=None, compare=False)
    """What the checkpoints alone said, and by which: where a limit or an earlier rejection says something else."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a judgement rests on; the facts are sound."""

    tool: ToolTraits
    action: Action
    facts: Mapping[str, Any] | None
    agent: str
    requester: str | None
    facts_failed: bool = False

    @property
    def subject(self) -> Subject:
        """What conditions see of it."""
        return Subject(self.action.arguments, self.facts, self.agent, self.requester, is_plain=True)


@dataclass(frozen=True, slots=True)
class CheckpointRuling:
    """What the checkpoints say of one action: `rule` catches it, or one out of the defaults (`caught_as`)."""

    verdict: Ruling
    because: str
    rule: Rule | None = None
    caught_as: str | None = None

    @property
    def checkpoint_id(self) -> str | None:
        return self.rule.checkpoint_id if self.rule else self.caught_as

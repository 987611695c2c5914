"""What policy says of one action, and the inputs of that evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from agent.domain.expression import Subject
from agent.domain.observation import Observation
from agent.domain.rules import Denial, Rule
from signoff.values import Action, Risk

Ruling = Literal["run", "ask", "deny"]


@dataclass(frozen=True)
class ToolTraits:
    """What policy reads of a tool: its name and version, and what its author says of risk and approval."""

    name: str
    version: str
    requires_approval: bool = False
    risk: Risk | None = None
    read_only: bool = False
    exempt: str = "is read-only"
    """Why `unmatched` does not apply to a `read_only` tool."""


@dataclass(frozen=True)
class Judgement:
    """`rule` is set for "ask"; `because` is for the audit log."""

    verdict: Ruling
    rule: Rule | None
    because: str
    epoch: int = 0
    inputs: "Inputs | None" = field(default=None, compare=False)
    observed: tuple[Observation, ...] = field(default=(), compare=False)
    rejected: UUID | None = field(default=None, compare=False)
    """The request that rejected this exact action."""
    ruled: tuple[Ruling, str | None] | None = field(default=None, compare=False)
    """Decision and id of the checkpoints alone, if a limit or an earlier rejection changed it."""
    denial: Denial | None = field(default=None, compare=False)
    """The denying checkpoint that caught it."""

    @property
    def told(self) -> str:
        """Why, to the model or program. The operator's words, because a condition would say how to pass it."""
        return self.denial.told if self.denial else self.because

    @property
    def checkpoint_id(self) -> str | None:
        caught_by = self.rule or self.denial
        return caught_by.checkpoint_id if caught_by else None


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that the evaluation of one action reads, which is enough to repeat it later."""

    tool: ToolTraits
    action: Action
    facts: Mapping[str, Any] | None
    agent: str
    requester: str | None
    facts_failed: bool = False

    @property
    def subject(self) -> Subject:
        return Subject(self.action.arguments, self.facts, self.agent, self.requester, is_plain=True)


@dataclass(frozen=True, slots=True)
class CheckpointRuling:
    """`caught_as`: a rule made of the defaults."""

    verdict: Ruling
    because: str
    rule: Rule | None = None
    caught_as: str | None = None
    denial: Denial | None = None

    @property
    def checkpoint_id(self) -> str | None:
        caught_by = self.rule or self.denial
        return caught_by.checkpoint_id if caught_by else self.caught_as

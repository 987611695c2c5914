"""What a report counts: outcomes, waiting times, and the votes of each reviewer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from agent.domain.request import RequestStatus
from agent.domain.verdicts import ON_APPROVAL, VERDICTS
from signoff.values import Person, Risk

PERIODS = (7, 30, 90)
"""Days, including today."""

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


@dataclass(frozen=True, slots=True)
class Scale:
    """Increasing ``bounds`` in seconds, and names between them."""

    bounds: tuple[int, ...]
    names: tuple[str, ...]

    def counts(self, found: Sequence[tuple[int, int]]) -> tuple[int, ...]:
        known = dict(found)
        return tuple(known.get(each, 0) for each in range(len(self.names)))


AGES = Scale(
    (5 * _MINUTE, _HOUR, 4 * _HOUR, _DAY, 3 * _DAY),
    ("under 5 min", "5 min to 1 h", "1 to 4 h", "4 to 24 h", "1 to 3 days", "over 3 days"),
)
LEFT = Scale(
    (0, 15 * _MINUTE, _HOUR, 4 * _HOUR, _DAY),
    ("overdue", "under 15 min", "15 min to 1 h", "1 to 4 h", "4 to 24 h", "over 1 day"),
)
TOOK = Scale(
    (_MINUTE, 5 * _MINUTE, 30 * _MINUTE, 2 * _HOUR, 8 * _HOUR, _DAY),
    ("under 1 min", "1 to 5 min", "5 to 30 min", "30 min to 2 h", "2 to 8 h", "8 to 24 h", "over 1 day"),
)


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole for reports, shown with its percentage; a whole of 0 is shown as none."""

    part: int = 0
    whole: int = 0

    def __str__(self) -> str:
        """`3 of 12 (25 %)`; no percentage of zero, and 0 % or 100 % only if exact."""
        if not self.whole:
            return "none"
        percent = round(100 * self.part / self.whole)
        if 0 < self.part < self.whole:
            percent = min(99, max(1, percent))
        return f"{self.part:,} of {self.whole:,} ({percent} %)"


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Numbers of ended requests by outcome."""

    counts: Mapping[str, int] = field(default_factory=dict)

    def of(self, outcome: str) -> int:
        return self.counts.get(outcome, 0)

    @property
    def decided(self) -> int:
        """Actions that people approved or rejected, and questions that they rejected; an answer decides no action."""
        return self.of("approved") + self.of("rejected")

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class GroupOutcomes:
    """``median``: seconds until the decision."""

    name: str
    outcomes: Outcomes
    median: float | None


@dataclass(frozen=True, slots=True)
class Decisions:
    """Approvals and rejections by people; ``median``: seconds from question to decision."""

    number: int = 0
    median: float | None = None


@dataclass(frozen=True, slots=True)
class ReviewerVotes:
    """``median``: seconds from question to vote; ``unread``: without opening Details."""

    person: Person
    by_verdict: Mapping[str, int]
    median: float | None
    unread: int

    @property
    def votes(self) -> int:
        return sum(self.by_verdict.values())

    @property
    def outcomes(self) -> list[tuple[RequestStatus, int]]:
        """How many are for each outcome."""
        return [(VERDICTS[each].outcome.status, self.by_verdict.get(each, 0)) for each in ON_APPROVAL]


@dataclass(frozen=True, slots=True)
class Report:
    """The figures on reviews over some days: waiting requests, outcomes, times, and votes by reviewer.

    ``together``: decided by a form that decided several.
    """

    days: int
    everything: bool
    waiting_by_age: tuple[int, ...]  # classes of AGES
    waiting_by_deadline: tuple[int, ...]  # classes of LEFT
    outcomes: Outcomes
    by_day: tuple[tuple[date, Outcomes], ...]  # earliest first
    took: tuple[int, ...]  # by classes of TOOK
    median: float | None
    slowest: float | None  # nine of ten were sooner
    agents: tuple[GroupOutcomes, ...]
    rules: tuple[GroupOutcomes, ...]
    reviewers: tuple[ReviewerVotes, ...]
    unread: Share
    unread_by_risk: tuple[tuple[Risk, Share], ...]
    together: Decisions = Decisions()
    alone: Decisions = Decisions()
    cut: bool = False  # too many: the earliest outcomes are missing
    waiting_cut: bool = False  # too many: the latest requests may be missing

    @property
    def waiting(self) -> int:
        return sum(self.waiting_by_age)

    @property
    def decided_together(self) -> Share:
        return Share(self.together.number, self.together.number + self.alone.number)

"""A request in one line of a list or a history, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from agent.domain.ancestors import ancestor_names
from agent.domain.people import Exclusion
from agent.domain.request import RequestStatus
from agent.domain.request_view import Behalf
from signoff.values import Person, Risk


@dataclass(frozen=True, slots=True)
class RequestLine:
    """A request in one line of a list: enough to recognise it and to know how urgent it is."""

    id: UUID
    description: str
    agent: str
    risk: Risk
    status: RequestStatus
    requester: Person | None
    created_at: datetime
    expires_at: datetime
    channel_id: str
    message_ts: str | None  # of its card there; None while the card has not been posted
    approvals: int
    approvals_required: int
    approvers: tuple[str, ...] = field(default=(), kw_only=True)
    excluded: tuple[Exclusion, ...] = field(default=(), kw_only=True)  # whose approval does not count
    # Whose votes on the present revision are live.
    voters: tuple[Person, ...] = field(default=(), kw_only=True)
    above: tuple[str, ...] = field(default=(), kw_only=True)  # as for RequestView
    label: str | None = field(default=None, kw_only=True)
    granted_to: Behalf | None = field(default=None, kw_only=True)  # by a request that gives a grant
    revision: int = field(default=1, kw_only=True)

    @property
    def chain(self) -> str:
        """Its agent, behind those that handed the task down, and its run's label: ``orders › refunds “EU”``."""
        return ancestor_names(self.above, self.agent, self.label)

    @property
    def behalf(self) -> Behalf:
        """On whose behalf it is asked, or a grant allows calls."""
        return self.granted_to or Behalf(anyone=False, requester=self.requester)


@dataclass(frozen=True, slots=True)
class HistoryLine(RequestLine):
    """A request in one line of a history; ``thread`` is the channel and ``ts`` of its card."""

    decided_by: Person | None = None
    decided_at: datetime | None = None
    reason: str | None = None
    thread: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """How many there are; ``more``: at least so many, and counting was given up there so that it stays cheap."""

    number: int
    more: bool = False

    def __str__(self) -> str:
        """`37`, `1,000+`."""
        return f"{self.number:,}{'+' if self.more else ''}"

"""A request as one line of a list, and what such a list is filtered and ordered by."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from agent.domain.ancestors import ancestor_names
from agent.domain.free_text import FreeText
from agent.domain.people import Exclusion, deciders
from agent.domain.request import ApprovalState, RequestStatus
from agent.domain.request_view import Behalf
from agent.domain.short_ids import IdRange
from signoff.values import Person, Risk


@dataclass(frozen=True, slots=True)
class RequestLine:
    """A request as a line of a list, with the votes, exclusions and reviewers that say who may act on it."""

    id: UUID
    description: str
    agent: str
    risk: Risk
    status: RequestStatus
    requester: Person | None
    created_at: datetime
    expires_at: datetime
    channel_id: str
    message_ts: str | None  # until its card is posted
    approvals: int
    approvals_required: int
    approvers: tuple[str, ...] = field(default=(), kw_only=True)
    excluded: tuple[Exclusion, ...] = field(default=(), kw_only=True)
    # On the current revision.
    voters: tuple[Person, ...] = field(default=(), kw_only=True)
    above: tuple[str, ...] = field(default=(), kw_only=True)
    label: FreeText | None = field(default=None, kw_only=True)
    granted_to: Behalf | None = field(default=None, kw_only=True)  # for a grant's request
    revision: int = field(default=1, kw_only=True)
    approval: ApprovalState | None = field(default=None, kw_only=True)
    wants_answer: bool = field(default=False, kw_only=True)  # more than yes or no

    @property
    def chain(self) -> str:
        """``orders › refunds “EU”``."""
        return ancestor_names(self.above, self.agent, self.label)

    @property
    def standing(self) -> RequestStatus | ApprovalState:
        return self.approval or self.status

    @property
    def behalf(self) -> Behalf:
        return self.granted_to or Behalf(anyone=False, requester=self.requester)


@dataclass(frozen=True, slots=True)
class HistoryLine(RequestLine):
    """``thread``: channel and ``ts`` of its card. ``approved_by`` as in `DecisionView`."""

    decided_by: Person | None = None
    decided_at: datetime | None = None
    reason: FreeText | None = None
    thread: tuple[str, str] | None = None
    approved_by: tuple[Person, ...] = ()
    answer: Any = None
    """The value that people answered."""
    together: UUID | None = None
    """The form of several requests whose vote decided it."""
    others: int = 0
    """Other requests on which the same person voted by that form."""

    @property
    def deciders(self) -> tuple[Person, ...]:
        return deciders(self.decided_by, self.approved_by)


@dataclass(frozen=True, slots=True)
class Count:
    """``more``: counting stopped to stay cheap."""

    number: int
    more: bool = False

    def __str__(self) -> str:
        """A number such as `37` or `1,000+`."""
        return f"{self.number:,}{'+' if self.more else ''}"


class RequestKind(StrEnum):
    """Waiting ones, ended ones, or all."""

    WAITING = "waiting"
    DECIDED = "decided"
    ANY = "any"


class RequestOrder(StrEnum):
    """Orders by time (of the outcome if decided, else of the question), deadline, or risk (then newest first).

    ASKED is for one turn or batch: as the model or the program asked, whatever was asked about first.
    """

    OLDEST = "oldest"
    NEWEST = "newest"
    DEADLINE = "deadline"
    RISK = "risk"
    ASKED = "asked"


def search_marks(checkpoint_id: str, channel_id: str, risk: Risk | None) -> list[str]:
    """Stored beside a request's words for the filters of lists. No typed word begins with a sign."""
    given = (("_c", checkpoint_id), ("_h", channel_id), ("_r", risk.value if risk else ""))
    return [name + value for name, value in given if value]


@dataclass(frozen=True, slots=True)
class RequestFilter:
    """None and the empty text match all.

    ``key``: of the asking program. ``person`` asked or decided; ``decider`` decided, or approved with others.
    ``since`` and ``until``: the earliest time of the list's kind, and the first that is too late. ``ids``: a prefix's.
    ``in_doubt``: a call waits to be settled. ``folded``: in a digest instead of a card. ``group``: in the message of
    this group. ``together``: with a vote of this form; by ``voter``, if given. ``words``, case-folded: each begins a
    word that people may read in the request, or a name of the people in ``named`` (word and user id).
    """

    status: RequestStatus | None = None
    agent: str = ""
    key: str = ""
    checkpoint_id: str = ""
    risk: Risk | None = None
    requester: Person | None = None
    person: Person | None = None
    channel_id: str = ""
    decider: Person | None = None
    ids: IdRange | None = None
    since: datetime | None = None
    until: datetime | None = None
    ends_before: datetime | None = None
    words: tuple[str, ...] = ()
    named: tuple[tuple[str, str], ...] = ()
    folded: bool | None = None
    group: str = ""
    together: UUID | None = None
    voter: Person | None = None
    in_doubt: bool | None = None

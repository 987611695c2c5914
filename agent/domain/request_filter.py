"""What a list of requests is filtered and ordered by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from agent.domain.request import RequestStatus
from signoff.values import Person, Risk


class RequestKind(StrEnum):
    """Waiting ones, ended ones, or all."""

    WAITING = "waiting"
    DECIDED = "decided"
    ANY = "any"


class RequestOrder(StrEnum):
    """Orders by time (of the outcome if decided, else of the question), deadline, or risk (then newest first)."""

    OLDEST = "oldest"
    NEWEST = "newest"
    DEADLINE = "deadline"
    RISK = "risk"


@dataclass(frozen=True, slots=True)
class RequestFilter:
    """None and the empty text match all.

    ``key``: of the asking program. ``person`` asked or decided. ``since``: the earliest time in the list's order.
    ``folded``: in a digest instead of a card. ``words``, case-folded: each begins a word that people may read in the
    request.
    """

    status: RequestStatus | None = None
    agent: str = ""
    key: str = ""
    checkpoint_id: str = ""
    risk: Risk | None = None
    requester: Person | None = None
    person: Person | None = None
    channel_id: str = ""
    since: datetime | None = None
    ends_before: datetime | None = None
    words: tuple[str, ...] = ()
    folded: bool | None = None

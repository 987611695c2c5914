"""Filters and sort orders for lists of requests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from agent.domain.request import RequestStatus
from signoff.values import Person, Risk


class RequestKind(StrEnum):
    """Which requests a list has: those that wait, those that have an outcome, or all."""

    WAITING = "waiting"
    DECIDED = "decided"
    ANY = "any"


class RequestOrder(StrEnum):
    """By time (of the outcome where decided, else of the question), by deadline, or by risk (then the newest first)."""

    OLDEST = "oldest"
    NEWEST = "newest"
    DEADLINE = "deadline"
    RISK = "risk"


@dataclass(frozen=True, slots=True)
class RequestFilter:
    """What a request must be; None and the empty text ask for nothing.

    ``key``: of the program that asks. ``person`` asked or decided. ``since``: the earliest time of the list's order.
    ``folded``: shown by a digest instead of a card. ``words``, case-folded, each begin a word of what people may
    read of it.
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

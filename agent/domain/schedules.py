"""Schedules: agents that start repeatedly, each time on behalf of the person responsible."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from signoff.values import Person

GRACE = timedelta(hours=1)
"""For how long a start is made up for when nobody could make it in time."""


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """An agent to be started again and again, on behalf of the person who answers for that."""

    agent: str
    task: str
    cron: str
    timezone: str
    requester: Person
    channel_id: str | None = None
    label: str | None = None
    grace: timedelta = GRACE


@dataclass(frozen=True, slots=True)
class Schedule:
    """A stored schedule. Without ``next_at`` it is paused."""

    id: UUID
    agent: str
    task: str
    cron: str
    timezone: str
    requester: Person
    channel_id: str | None
    label: str | None
    grace_seconds: float
    created_by: str
    created_at: datetime
    next_at: datetime | None
    last_at: datetime | None = None
    """When it was last due."""
    last_run_id: UUID | None = None
    last_missed: str | None = None
    """Why nothing was started then."""

"""The person responsible for a schedule is the requester of every run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from signoff.values import Person

GRACE = timedelta(hours=1)
"""How late a start may be, if no process was running."""


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """A schedule to add: the agent and task to start, when, and for which requester."""

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
    """A schedule; paused without ``next_at``."""

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
    last_run_id: UUID | None = None
    last_missed: str | None = None

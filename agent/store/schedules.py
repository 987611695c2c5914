"""Schedules, and the times that a process has claimed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction, fetch, query
from agent.domain.ancestors import label_of
from agent.domain.schedules import NewSchedule, Schedule
from agent.store.rows import columns, row_as


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule whose next time has come, with the database's time when it was found."""

    schedule: Schedule
    now: datetime


def insert(
    tx: Transaction, schedule_id: UUID, new: NewSchedule, by: str, next_at: datetime | None, at: datetime
) -> None:
    """Add a schedule, which starts its first run at `next_at`."""
    given = columns(new, label=label_of(new.label), grace=new.grace.total_seconds())
    tx.add(_INSERT, **given, id=schedule_id, by=by, next_at=next_at, at=at)


async def lock(connection: Connection, schedule_id: UUID) -> Schedule | None:
    """Lock a schedule until COMMIT and return it with its latest start; None if there is none."""
    _, found = await query(connection, _LOCK, _ONE, id=schedule_id)
    return row_as(Schedule, found[0]) if found else None


async def read(connection: Connection, schedule_id: UUID) -> Schedule:
    """Return a schedule with its latest start, without a lock; it has to exist."""
    [row] = await fetch(connection, _ONE, id=schedule_id)
    return row_as(Schedule, row)


async def due(connection: Connection, limit: int = 100) -> list[DueSchedule]:
    """Return up to `limit` schedules that are due, earliest first, without locks or their latest starts."""
    rows = await fetch(connection, _DUE, limit=limit)
    return [DueSchedule(row_as(Schedule, row), row.now) for row in rows]


async def all_schedules(connection: Connection) -> list[Schedule]:
    """Return all schedules, paused ones too, each with its latest start, in order of creation."""
    return [row_as(Schedule, row) for row in await fetch(connection, _ALL)]


async def unknown_agents(connection: Connection, known: Sequence[str]) -> list[str]:
    """Return the agents of schedules that are not paused, without the known ones, sorted."""
    return [row.agent for row in await fetch(connection, _UNKNOWN, known=list(known))]


async def matching(connection: Connection, id_prefix: str) -> list[UUID]:
    """At most two ids; two mean ambiguous."""
    return [row.id for row in await fetch(connection, _LIKE, prefix=id_prefix.lower())]


async def claim(connection: Connection, schedule_id: UUID, due_at: datetime, run_id: UUID) -> bool:
    """The run is inserted later; only one process can claim a time."""
    found = await fetch(connection, _CLAIM, schedule=schedule_id, due=due_at, run=run_id)
    return bool(found)


def note_missed(tx: Transaction, schedule_id: UUID, due_at: datetime, why: str) -> None:
    """Note why a claimed time of a schedule started no run."""
    tx.add(_MISSED, schedule=schedule_id, due=due_at, why=why)


def set_next(tx: Transaction, schedule_id: UUID, next_at: datetime | None) -> None:
    """None pauses the schedule."""
    tx.add(_NEXT, id=schedule_id, next_at=next_at)


def delete(tx: Transaction, schedule_id: UUID) -> None:
    """Delete a schedule; the runs that it started stay."""
    tx.add(_DELETE, id=schedule_id)


_INSERT = text("""
INSERT INTO schedule (id, agent, task, cron, timezone, label, requester_team_id, requester_user_id, channel_id,
                      grace_seconds, created_by, next_at, created_at)
VALUES (:id, :agent, :task, :cron, :timezone, :label, :requester_team_id, :requester_user_id, :channel_id, :grace,
        :by, :next_at, :at)
""")
_LOCK = text("SELECT id FROM schedule WHERE id = :id FOR NO KEY UPDATE")
_ONE = text("""
SELECT s.*, l.due_at AS last_at, l.run_id AS last_run_id, l.missed AS last_missed FROM schedule AS s
LEFT JOIN LATERAL (SELECT * FROM schedule_start WHERE schedule_id = s.id ORDER BY due_at DESC LIMIT 1) AS l ON true
WHERE s.id = :id
""")
_ALL = text("""
SELECT s.*, l.due_at AS last_at, l.run_id AS last_run_id, l.missed AS last_missed FROM schedule AS s
LEFT JOIN LATERAL (SELECT * FROM schedule_start WHERE schedule_id = s.id ORDER BY due_at DESC LIMIT 1) AS l ON true
ORDER BY s.id
""")
_DUE = text("""
SELECT s.*, NULL AS last_at, NULL AS last_run_id, NULL AS last_missed, clock_timestamp() AS now FROM schedule AS s
WHERE s.next_at <= (SELECT clock_timestamp()) ORDER BY s.next_at LIMIT :limit
""")
_UNKNOWN = text("""
SELECT DISTINCT agent FROM schedule WHERE next_at IS NOT NULL AND agent <> ALL(CAST(:known AS text[])) ORDER BY agent
""")
_LIKE = text("SELECT id FROM schedule WHERE starts_with(id::text, :prefix) ORDER BY id LIMIT 2")
_CLAIM = text("""
INSERT INTO schedule_start (schedule_id, due_at, run_id) VALUES (:schedule, :due, :run)
ON CONFLICT DO NOTHING RETURNING due_at
""")
_MISSED = text("UPDATE schedule_start SET missed = :why WHERE schedule_id = :schedule AND due_at = :due")
_NEXT = text("UPDATE schedule SET next_at = :next_at WHERE id = :id")
_DELETE = text("DELETE FROM schedule WHERE id = :id")

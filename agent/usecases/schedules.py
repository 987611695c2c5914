"""The person who adds a schedule is the requester of its runs. Each time starts one run, across all processes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from uuid import UUID

import structlog

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.audit import AuditKind
from agent.domain.cron import Cron
from agent.domain.errors import NotFound
from agent.domain.run import NewRun
from agent.domain.schedules import NewSchedule, Schedule
from agent.store import audit, clock, schedules
from agent.store.audit import AuditEntry
from agent.store.ids import new_id
from agent.usecases.runs.starts import write_failed_run, write_run
from signoff.errors import Conflict

log = structlog.get_logger(__name__)


async def add(db: Database, new: NewSchedule, *, by: str) -> Schedule:
    """Add a schedule. Raises ValueError without a future time."""
    schedule_id, cron = new_id(), Cron(new.cron, new.timezone)
    async with db.transaction() as tx:
        now = await clock.now(tx)
        schedules.insert(tx, schedule_id, new, by, cron.after(now), now)
        detail = {
            "agent": new.agent,
            "cron": new.cron,
            "timezone": new.timezone,
            "requester": str(new.requester),
        }
        head = audit.new_head(_subject(schedule_id), now)
        audit.append(tx, head, AuditEntry(AuditKind.SCHEDULE_ADDED, by, detail))
        await tx.flush()
        return await schedules.read(tx, schedule_id)


async def remove(db: Database, schedule_id: UUID, *, by: str) -> None:
    """Started runs go on. Raises NotFound."""
    async with db.transaction() as tx:
        await _locked(tx, schedule_id)
        schedules.delete(tx, schedule_id)
        await audit.record(tx, _subject(schedule_id), AuditKind.SCHEDULE_REMOVED, by, {})


async def pause(db: Database, schedule_id: UUID, *, by: str) -> bool:
    """Skipped times are not made up for. False: already paused. Raises NotFound."""
    async with db.transaction() as tx:
        if (await _locked(tx, schedule_id)).next_at is None:
            return False
        schedules.set_next(tx, schedule_id, None)
        await audit.record(tx, _subject(schedule_id), AuditKind.SCHEDULE_PAUSED, by, {})
    return True


async def resume(db: Database, schedule_id: UUID, *, by: str) -> bool:
    """False: not paused. Raises NotFound, and Conflict if its times cannot be read any more."""
    async with db.transaction() as tx:
        found = await _locked(tx, schedule_id)
        if found.next_at is not None:
            return False
        at = await clock.now(tx)
        try:
            schedules.set_next(tx, schedule_id, Cron(found.cron, found.timezone).after(at))
        except ValueError as unreadable:
            raise Conflict(f"{unreadable}; remove this schedule and add another one") from None
        await audit.record(tx, _subject(schedule_id), AuditKind.SCHEDULE_RESUMED, by, {})
    return True


async def start(
    db: Database, schedule: Schedule, due_at: datetime, now: datetime, new: NewRun, missed: str | None
) -> UUID | None:
    """Start the run, or record it as failed because it was ``missed``. None: this time has come before.

    A schedule whose times cannot be read any more is paused.
    """
    run_id = new_id()
    async with db.transaction() as tx:
        stored = await schedules.lock(tx, schedule.id)
        if stored is None or stored.next_at is None or stored.next_at != schedule.next_at:
            return None
        schedules.set_next(tx, schedule.id, _next(schedule, now))
        if not await schedules.claim(tx, schedule.id, due_at, run_id):
            return None  # this time came before the clock was set back
        new = replace(new, start_key=f"schedule:{schedule.id}:{due_at.isoformat()}")
        if missed is None:
            await write_run(tx, run_id, new)
        else:
            await write_failed_run(tx, run_id, new, missed)
            schedules.note_missed(tx, schedule.id, due_at, missed)
        kind = AuditKind.SCHEDULE_STARTED if missed is None else AuditKind.SCHEDULE_MISSED
        detail = {"due": due_at.isoformat(), "run": str(run_id)}
        await audit.record(tx, _subject(schedule.id), kind, audit.SYSTEM, detail)
        facts = {"schedule_id": str(schedule.id), "run_id": str(run_id), "missed": missed}
        tx.after_commit(partial(log.info, "a schedule is due", action="schedule.due", **facts))
    return run_id


async def due(db: Database) -> list[schedules.DueSchedule]:
    """Return schedules whose time has come, earliest first, at most 100, each with the database's time."""
    return await db.read(schedules.due)


async def list_schedules(db: Database) -> list[Schedule]:
    """Return all schedules, oldest first and including paused ones, each with its latest start."""
    return await db.read(schedules.all_schedules)


async def unknown_agents(db: Database, known: list[str]) -> list[str]:
    """Return the agents of schedules in use that are not among the known ones, sorted."""
    return await db.read(schedules.unknown_agents, known)


async def find(db: Database, id_prefix: str) -> UUID:
    """Raises NotFound unless exactly one schedule matches."""
    found = await db.read(schedules.matching, id_prefix)
    if len(found) != 1:
        raise NotFound(f"{'several schedules begin' if found else 'no schedule begins'} with {id_prefix}")
    return found[0]


def _next(schedule: Schedule, now: datetime) -> datetime | None:
    try:
        return Cron(schedule.cron, schedule.timezone).after(now)
    except ValueError:
        return None


async def _locked(tx: Transaction, schedule_id: UUID) -> Schedule:
    found = await schedules.lock(tx, schedule_id)
    if found is None:
        raise NotFound(f"there is no schedule {schedule_id}")
    return found


def _subject(schedule_id: UUID) -> str:
    return f"schedule:{schedule_id}"

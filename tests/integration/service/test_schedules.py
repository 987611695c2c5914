"""Agents that a running service starts by schedules, in one story."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from agent.domain.run import NewRun
from agent.domain.schedules import NewSchedule, Schedule
from agent.usecases import audit, schedules
from agent.usecases.runs import resumption
from signoff import function_agent
from signoff.errors import Conflict
from signoff.values import Person
from tests.integration.service.conftest import POLICY, House, until


@function_agent(name="reporter")
async def reporter(task: str) -> str:
    return f"reported: {task}"


async def add(house: House, **changes: Any) -> Schedule:
    person = Person(house.slack.workspace.team.id, changes.pop("user", "U0ADA"))
    new = NewSchedule("reporter", "the week", "0 9 * * 1", "Europe/Berlin", person, **changes)
    return await schedules.add(house.db, new, by="cli:test")


async def let_come(house: House, schedule: Schedule, ago: str, grace: float = 3600.0) -> None:
    """Its time was so long ago."""
    async with house.db.transaction() as tx:
        await tx.execute(
            text(
                f"UPDATE schedule SET next_at = clock_timestamp() - interval '{ago}', grace_seconds = :grace"
            ),
            {"grace": grace},
        )


async def of(house: House, schedule: Schedule) -> Schedule:
    return next(each for each in await schedules.list_schedules(house.db) if each.id == schedule.id)


async def came(house: House, schedule: Schedule) -> Schedule:
    """The schedule, as soon as its time has come to something."""

    async def look() -> Schedule | None:
        found = await of(house, schedule)
        return found if found.last_run_id else None

    return await until(look)


async def test_schedules_start_agents(http_house: House) -> None:
    """Started once, for its owner; late and forbidden starts are reported, on record, and can be resumed."""
    house = http_house
    service = await house.open([reporter], POLICY)
    weekly = await add(house, label="weekly")
    assert weekly.next_at is not None
    await let_come(house, weekly, "5 min")
    started = await came(house, weekly)
    root = await house.says("reporter “weekly”", channel="C0REVIEW")
    assert "U0ADA" in root
    await house.shows("SELECT status::text || ', ' || answer FROM agent_run", "completed, reported: the week")
    assert await house.column("SELECT principal FROM agent_run") == [f"schedule:{weekly.id}"]
    assert (started.last_missed, started.next_at) == (None, weekly.next_at)
    await schedules.remove(house.db, weekly.id, by="cli:test")

    late = await add(house)
    await let_come(house, late, "2 h", grace=0)
    missed = await came(house, late)
    assert (missed.last_missed or "").startswith("missed: it was due at")
    await house.says("missed: it was due at", channel="C0REVIEW")
    assert isinstance(missed.last_run_id, UUID)
    await resumption.resume_by_operator(house.db, missed.last_run_id, "cli:test")
    await house.shows("SELECT count(*) FROM agent_run WHERE status = 'completed'", 2)
    await schedules.remove(house.db, late.id, by="cli:test")

    guest = await add(house, user="U0MALLORY")
    await let_come(house, guest, "1 min")
    refused = await came(house, guest)
    assert "Guests of this workspace cannot start agents" in (refused.last_missed or "")
    await schedules.remove(house.db, guest.id, by="cli:test")

    other = NewSchedule("nobody", "x", "0 9 * * 1", "UTC", late.requester)
    await schedules.add(house.db, other, by="cli:test")
    _, parts = await service.check()
    assert parts["schedules"] == "no such agents: nobody"
    _, problems = await audit.find_problems(house.db)
    assert problems == []
    events = await house.column(
        "SELECT event FROM audit_event WHERE subject = :s ORDER BY seq", s=f"schedule:{late.id}"
    )
    assert events == ["schedule.added", "schedule.missed", "schedule.removed"]


async def test_a_schedule_that_cannot_be_read_holds_up_no_other(http_house: House) -> None:
    """What an earlier version accepted is reported in a failed run and paused; the other schedules start."""
    house = http_house
    await house.open([reporter], POLICY)
    old, zoneless, weekly = await add(house), await add(house), await add(house)
    async with house.db.transaction() as tx:
        for column, value, schedule in (("cron", "0 9 last * *", old), ("timezone", "US/Gone", zoneless)):
            await tx.execute(
                text(f"UPDATE schedule SET {column} = :value WHERE id = :id"),
                {"value": value, "id": schedule.id},
            )
    await let_come(house, weekly, "5 min")
    assert (await came(house, weekly)).last_missed is None
    for schedule, why in ((old, '"last" is not a day of the month'), (zoneless, "there is no time zone")):
        missed = await came(house, schedule)
        assert why in (missed.last_missed or "")
        assert missed.next_at is None
        with pytest.raises(Conflict, match="remove this schedule and add another one"):
            await schedules.resume(house.db, schedule.id, by="cli:test")
    await house.says("not started, and the schedule is paused", channel="C0REVIEW")


async def test_a_time_that_comes_again_is_passed_over(http_house: House) -> None:
    """After the clock of the database was set back, a time that has started its run does not hold up the next ones."""
    house = http_house
    schedule = await add(house)
    await let_come(house, schedule, "1 min")
    new = NewRun("reporter", "1", "x", "schedule", schedule.requester, "schedule", None, None)
    [due] = await schedules.due(house.db)
    at = due.schedule.next_at
    assert at is not None
    assert await schedules.start(house.db, due.schedule, at, due.now, new, None) is not None
    async with house.db.transaction() as tx:
        await tx.execute(text("UPDATE schedule SET next_at = :at"), {"at": at})
    [again] = await schedules.due(house.db)
    assert await schedules.start(house.db, again.schedule, at, again.now, new, None) is None
    assert await house.column("SELECT count(*) FROM agent_run") == [1]
    assert (await of(house, schedule)).next_at == schedule.next_at


async def test_each_time_comes_once(http_house: House) -> None:
    """Any number of processes may look at the same time: one of them starts the run."""
    house = http_house
    schedule = await add(house)
    await let_come(house, schedule, "1 min")
    [due] = await schedules.due(house.db)
    new = NewRun("reporter", "1", "x", "schedule", schedule.requester, "schedule", None, None)
    at = due.schedule.next_at
    assert at is not None
    found = await asyncio.gather(
        *(schedules.start(house.db, due.schedule, at, due.now, new, None) for _ in range(5))
    )
    assert sum(each is not None for each in found) == 1
    assert await house.column("SELECT count(*) FROM agent_run") == [1]
    assert await schedules.due(house.db) == []
    assert due.now - at < timedelta(minutes=2)

"""The scheduler: one look says which sweeps have something to do, and begins them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from agent.database.pools import Database
from agent.domain.run import NewRun
from agent.store import overdue
from agent.usecases import requests, runs
from slackbot.service import scheduler as module
from slackbot.service.scheduler import OVERDUE, Scheduler
from tests.integration import alone
from tests.integration.asking import (
    ADA,
    GRACE,
    TEAM,
    ask,
    asked_as,
    ballot,
    claim_approved,
    programs_question,
    reviewer,
    rule,
    start,
    write,
)
from tests.statement_counter import counting


async def found(db: Database) -> list[str]:
    """Sweeps with due work; the words of new requests are always due."""
    async with db.connection() as connection:
        sweeps = await overdue.find(connection)
    assert "search" in sweeps
    return [each for each in sweeps if each != "search"]


async def remind(db: Database) -> None:
    await ask(db)
    await write(db, "UPDATE approval_request SET remind_next = clock_timestamp()")


async def expire(db: Database) -> None:
    await ask(db)
    await write(db, "UPDATE approval_request SET expires_at = clock_timestamp()")


async def rescue(db: Database) -> None:
    await claim_approved(db, await ask(db))
    await write(db, "UPDATE execution SET lease_until = clock_timestamp()")


async def lapse(db: Database) -> None:
    call_id = (await requests.open(db, programs_question(rule()))).request_id
    await alone.vote(db, ballot(await asked_as(db, call_id, call_id, call_id), reviewer(GRACE)))
    await write(db, "UPDATE tool_call SET lapse_at = clock_timestamp() WHERE run_id IS NULL")


async def orphans(db: Database) -> None:
    run_id, [call_id] = await start(db)
    child = NewRun("payments", "1", "pay", "agent", ADA, "slack", TEAM, None, parent_run_id=run_id)
    await runs.start(db, replace(child, parent_call_id=call_id))
    await write(db, "UPDATE tool_call SET state = 'delegated', action = 'a', digest = sha256('a')")
    await write(db, "UPDATE agent_run SET status = 'failed', cause = 'it broke' WHERE id = :id", id=run_id)


@pytest.mark.parametrize("make_due", [expire, remind, rescue, lapse, orphans])
async def test_a_look_finds_what_is_due(
    database: Database, make_due: Callable[[Database], Awaitable[None]]
) -> None:
    """What is due for one sweep is found for this sweep and for no other, whatever else there is that is not due."""
    await ask(database)
    await claim_approved(database, await ask(database))
    assert await found(database) == []
    await make_due(database)
    assert await found(database) == [make_due.__name__]


async def test_an_idle_look_is_one_statement(database: Database) -> None:
    """While nothing is due, the scheduler asks the database one question and writes nothing."""
    await ask(database)
    with counting() as counted:
        await Scheduler(database)._look()
    assert len(counted.statements) == 1
    assert counted.transactions == 0


async def test_a_long_sweep_holds_up_no_other(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a sweep runs, looks begin other sweeps, and that one no second time."""
    await expire(database)
    begun, done = [], asyncio.Event()

    async def long(_: Database) -> int:
        begun.append("expire")
        await done.wait()
        return 1

    async def short(_: Database) -> int:
        begun.append("remind")
        return 1

    monkeypatch.setattr(module, "OVERDUE", {**OVERDUE, "expire": long, "remind": short})
    scheduler = Scheduler(database)
    await look(scheduler)
    await remind(database)
    await look(scheduler)
    assert begun == ["expire", "remind"]
    done.set()
    await asyncio.wait(scheduler._sweeping.values())
    await look(scheduler)
    assert begun.count("expire") == 2
    scheduler.stop()


async def look(scheduler: Any) -> None:
    """Look, and let what that begins come as far as it does."""
    await scheduler._look()
    await asyncio.sleep(0)

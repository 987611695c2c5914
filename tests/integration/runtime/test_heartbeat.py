"""Leases of attempts: what a process may believe about its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

import psycopg
import pytest

from agent.database.pools import Database
from agent.runtime.heartbeat import Heartbeat, lease_clock
from agent.usecases import calls
from tests.integration.asking import ask, claim_approved, write

Pass = Callable[[float], None]


@pytest.fixture
def now() -> float:
    return lease_clock()


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch, now: float) -> Pass:
    """Has it be so many seconds later for the process; a lease lasts for ten."""
    return lambda seconds: monkeypatch.setattr("agent.runtime.heartbeat.lease_clock", lambda: now + seconds)


async def claimed(db: Database, worker: str = "w") -> UUID:
    return (await claim_approved(db, await ask(db), worker=worker)).execution_id


@pytest.mark.parametrize(("late", "extended"), [(7.0, True), (11.0, False)])
async def test_a_lease_is_surely_held_as_long_as_beats_extend_it_in_time(
    database: Database, now: float, passed: Pass, late: float, extended: bool
) -> None:
    """A beat that comes after the lease may have been over proves nothing, so the tool does not begin."""
    heart, execution_id = Heartbeat(database, "w"), await claimed(database)
    with heart.holding_execution(execution_id, now):
        passed(late)
        assert heart.holds_lease(execution_id) is extended
        await heart.beat()
        passed(late + 8)
        assert heart.holds_lease(execution_id) is extended
    assert not heart.holds_lease(execution_id)


async def test_only_a_lease_that_was_extended_is_surely_held(
    database: Database, owner: psycopg.Connection, now: float, passed: Pass
) -> None:
    """A beat extends a lease for the process only if it did so in the database: not of a locked or a lost attempt."""
    heart = Heartbeat(database, "w")
    kept, locked, lost = [await claimed(database) for _ in range(3)]
    await write(database, "UPDATE execution SET lease_until = clock_timestamp() WHERE id = :id", id=lost)
    assert await calls.rescue(database) == 1
    with (
        heart.holding_execution(kept, now),
        heart.holding_execution(locked, now),
        heart.holding_execution(lost, now),
    ):
        passed(7)
        with owner.transaction():
            owner.execute("SELECT FROM execution WHERE id = %s FOR UPDATE", [locked])
            await heart.beat()
        passed(11)
        assert [heart.holds_lease(each) for each in (kept, locked, lost)] == [True, False, False]


async def test_a_lease_taken_during_a_beat_keeps_its_own_end(
    database: Database, now: float, passed: Pass
) -> None:
    """A beat that was under way when the process took a lease did not extend it."""
    heart = Heartbeat(database, "w")
    before, during = [await claimed(database) for _ in range(2)]
    with heart.holding_execution(before, now):
        passed(7)
        beating = asyncio.create_task(heart.beat())
        await asyncio.sleep(0)  # until it waits for the database
        with heart.holding_execution(during, now):
            await beating
            passed(11)
            assert [heart.holds_lease(each) for each in (before, during)] == [True, False]

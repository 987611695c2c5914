"""Sweeps with one broken item: the others are processed, and the broken one is reported, not repeated forever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from prometheus_client import REGISTRY
from sqlalchemy import event, text
from structlog.testing import capture_logs

from agent.database.errors import DatabaseUnavailable
from agent.database.pools import Database
from agent.database.precedence import Precedence, Rank
from agent.usecases import calls, requests
from agent.usecases.batches import AGAIN, FailedItems
from agent.usecases.calls import lost_attempts
from agent.usecases.requests import endings, reminders
from tests.databases import TEMPLATE, Postgres
from tests.integration import alone
from tests.integration.asking import GRACE, ask, ballot, column, reviewer, rule, write
from tests.statement_counter import counting

SOON = rule(timeout=timedelta(seconds=60), remind_at=[0.5])


async def break_chain(database: Database, request_id: UUID) -> None:
    """The head of its chain stands before its end: whatever is appended collides."""
    subject = f"request:{request_id}"
    await write(database, "UPDATE audit_head SET seq = seq - 1 WHERE subject = :subject", subject=subject)


async def overdue(database: Database) -> None:
    await write(database, "UPDATE approval_request SET expires_at = clock_timestamp()")


async def mend_chain(database: Database, request_id: UUID) -> None:
    subject = f"request:{request_id}"
    await write(database, "UPDATE audit_head SET seq = seq + 1 WHERE subject = :subject", subject=subject)


def counted_as_expired() -> float:
    return REGISTRY.get_sample_value("signoff_decisions_total", {"outcome": "expired"}) or 0.0


def failures(logs: list[Any]) -> list[tuple[str, str]]:
    return [(each["work"], each["item"]) for each in logs if each.get("action") == "sweep.item_failed"]


@pytest.mark.parametrize("size", [500, 1])
async def test_a_broken_chain_holds_up_no_other_expiry(
    database: Database, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """The others expire, also behind it; it is logged once a minute, and expires when its chain is mended.

    Each is counted when it has expired, and not for transactions that were rolled back.
    """
    now, before = [0.0], counted_as_expired()
    monkeypatch.setattr(endings, "_BROKEN", FailedItems("expire", lambda: now[0]))
    broken, *others = [await ask(database, SOON) for _ in range(4)]
    await break_chain(database, broken.request_id)
    await overdue(database)
    with capture_logs() as logs:
        assert await requests.expire_due(database, batch_size=size) == 3
        assert await requests.expire_due(database, batch_size=size) == 0
    assert failures(logs) == [("expire", str(broken.request_id))]
    expired = await column(database, "SELECT id FROM approval_request WHERE status = 'expired'")
    assert set(expired) == {each.request_id for each in others}
    assert counted_as_expired() == before + 3
    now[0] += AGAIN
    with capture_logs() as logs:
        assert await requests.expire_due(database, batch_size=size) == 0
    assert failures(logs) == [("expire", str(broken.request_id))]
    now[0] += AGAIN
    await mend_chain(database, broken.request_id)
    assert await requests.expire_due(database, batch_size=size) == 1
    assert counted_as_expired() == before + 4


async def test_a_broken_chain_holds_up_no_other_reminder(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are reminded of."""
    monkeypatch.setattr(reminders, "_BROKEN", FailedItems("remind"))
    broken, *others = [await ask(database, SOON) for _ in range(3)]
    await break_chain(database, broken.request_id)
    await write(database, "UPDATE approval_request SET remind_next = clock_timestamp()")
    with capture_logs() as logs:
        assert await requests.remind_due(database) == 2
        assert await requests.remind_due(database) == 0
    assert failures(logs) == [("remind", str(broken.request_id))]
    reminded = await column(database, "SELECT request_id FROM delivery WHERE body ->> 'line' = 'reminder'")
    assert set(reminded) == {each.request_id for each in others}


async def test_a_broken_chain_holds_up_no_other_rescue(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempts of other calls whose workers are gone come into doubt, however long the broken one has been first."""
    monkeypatch.setattr(lost_attempts, "_BROKEN", FailedItems("rescue"))
    claims: list[tuple[UUID, UUID]] = []
    for _ in range(3):
        asked = await ask(database)
        await alone.vote(database, ballot(asked, reviewer(GRACE)))
        claim = await alone.claim(database, asked.call_id, worker="gone", idempotent=False)
        assert claim is not None
        claims.append((claim.execution_id, asked.request_id))
    await break_chain(database, claims[0][1])
    await write(database, "UPDATE execution SET lease_until = clock_timestamp()")
    with capture_logs() as logs:
        assert await calls.rescue(database, batch_size=1) == 0
        assert await calls.rescue(database, batch_size=1) == 1
        assert await calls.rescue(database) == 1
        assert await calls.rescue(database) == 0
    assert failures(logs) == [("rescue", str(claims[0][0]))]
    doubtful = await column(database, "SELECT id FROM execution WHERE status = 'in_doubt'")
    assert set(doubtful) == {execution_id for execution_id, _ in claims[1:]}


async def test_a_database_that_is_away_is_nobodys_fault() -> None:
    """Nothing is left out because the database could not be reached."""
    nowhere = Database("postgresql://nobody@127.0.0.1:1/nowhere")
    sweeps: list[Callable[[Database], Awaitable[int]]] = [
        requests.expire_due,
        requests.remind_due,
        calls.rescue,
    ]
    for sweep in sweeps:
        with capture_logs() as logs, pytest.raises(DatabaseUnavailable):
            await sweep(nowhere)
        assert failures(logs) == []


async def test_a_good_batch_needs_no_query_per_request(database: Database) -> None:
    """However many are overdue, the statements of a batch that reads and locks stay the same few."""
    counts = []
    for size in (2, 12):
        for _ in range(size):
            await ask(database, SOON)
        await overdue(database)
        counts.append(await _statements(database, requests.expire_due))
    assert counts[0] == counts[1]


async def _statements(database: Database, sweep: Callable[[Database], Awaitable[int]]) -> int:
    seen: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        seen.append(statement)

    engine = database._writing.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        assert await sweep(database)
    finally:
        event.remove(engine, "before_cursor_execute", note)
    return len(seen)


async def test_ten_expiries_cost_as_many_statements_as_one(database: Database) -> None:
    """A batch is one transaction with the same statements, however many requests are in it."""
    costs = []
    for number in (1, 10):
        for _ in range(number):
            await ask(database, SOON)
        await overdue(database)
        with counting() as counted:
            assert await requests.expire_due(database, batch_size=32) == number
        assert counted.transactions == 1
        costs.append(len(counted.statements))
    assert costs[0] == costs[1] <= 12


async def test_batches_beside_each_other_end_each_request_once(database: Database) -> None:
    """Behind a full batch two continue at the same time; at the end everything has expired, each request once."""
    before = counted_as_expired()
    for _ in range(9):
        await ask(database, SOON)
    await overdue(database)
    assert await requests.expire_due(database, batch_size=2) + await requests.expire_due(database) == 9
    assert counted_as_expired() == before + 9
    assert await column(database, "SELECT count(*) FROM decision") == [9]


async def test_no_batch_begins_while_a_person_waits(database: Database) -> None:
    """A click goes first: what is overdue expires when it has been answered."""
    database.precedence = Precedence(dict.fromkeys(Rank, 3600))
    await ask(database, SOON)
    await overdue(database)
    with database.precedence.at_work(Rank.PERSON), counting() as counted:
        sweep = asyncio.create_task(requests.expire_due(database))
        for _ in range(20):
            await asyncio.sleep(0)
        assert counted.statements == []
    assert await sweep == 1


async def test_no_table_is_scanned_by_a_plan_of_its_early_days(postgres: Postgres) -> None:
    """Questions, votes and deadlines find rows by an index from the first one on, in triggers and foreign keys too."""
    name = postgres.create(TEMPLATE)
    async with Database(postgres.url(name)) as fresh:
        for _ in range(3):
            asked = await ask(fresh, rule(approvals_required=1))
            await alone.vote(fresh, ballot(asked, reviewer(GRACE)))
            await ask(fresh, SOON)
        await overdue(fresh)
        assert await requests.expire_due(fresh) == 3
        async with fresh.transaction() as tx:  # the connection of all of this
            await tx.execute(text("SELECT pg_stat_force_next_flush()"))
        async with fresh.connection() as connection:
            scanned = (await connection.execute(text(_SCANNED))).scalars().all()
    postgres.drop(name)
    assert scanned == []


_SCANNED = """
SELECT relname FROM pg_stat_user_tables
WHERE seq_scan > 0 AND relname IN ('request_revision', 'vote', 'decision', 'delivery', 'agent_run', 'audit_event')
"""

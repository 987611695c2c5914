"""Every test that opens a database checks the lock order; these show that the check finds what it looks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from uuid import UUID

import pytest

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.audit import request_subject
from agent.store import audit, call_locks, calls, deliveries, outbox, request_locks, runs, undelivered
from agent.store.ids import new_id
from agent.store.outbox import Destination
from agent.usecases.requests.opening import write_request
from tests import lock_recorder
from tests.integration.asking import Asked, ask, programs_question, rule, start


async def request_after_call(tx: Transaction, asked: Asked) -> None:
    await call_locks.lock(tx, asked.call_id)
    await request_locks.lock(tx, asked.request_id)


async def run_after_head(tx: Transaction, asked: Asked) -> None:
    await audit.lock_heads(tx, [request_subject(asked.request_id)])
    await runs.lock(tx, asked.run_id)


async def call_written_after_head(tx: Transaction, asked: Asked) -> None:
    await audit.lock_heads(tx, [request_subject(asked.request_id)])
    calls.mark_in_doubt(tx, asked.call_id)


async def other_request_after_call(tx: Transaction, asked: Asked) -> None:
    await request_locks.lock(tx, asked.request_id)
    await call_locks.lock(tx, asked.call_id)
    await request_locks.lock(tx, UUID(int=1))


async def run_after_card(tx: Transaction, asked: Asked) -> None:
    outbox.enqueue(tx, [outbox.card(Destination("T0TEST", "C0REVIEW"), asked.request_id)])
    await tx.flush()
    await runs.lock(tx, asked.run_id)


async def destination_after_delivery(tx: Transaction, asked: Asked) -> None:
    undelivered.mark_dead(tx, [UUID(int=1)], "no", ambiguous=False)
    await tx.flush()
    await deliveries.release(tx, Destination("T0TEST", "C0REVIEW"), 1)


async def question_after_call(tx: Transaction, asked: Asked) -> None:
    await call_locks.lock(tx, asked.call_id)
    await request_locks.lock_client_id(tx, "key:ci", "r-1")


async def other_call_after_head(tx: Transaction, asked: Asked) -> None:
    """The call that the transaction makes excuses no write of another one."""
    new, head = programs_question(rule()), audit.new_head("request:new", datetime.now(UTC))
    write_request(tx, new_id(), new, 1, head, [])
    await tx.flush()
    calls.mark_in_doubt(tx, asked.call_id)


@pytest.mark.parametrize(
    "swapped",
    [
        question_after_call,
        other_call_after_head,
        request_after_call,
        run_after_head,
        call_written_after_head,
        other_request_after_call,
        run_after_card,
        destination_after_delivery,
    ],
)
async def test_locks_in_another_order_are_found(
    database: Database, database_url: str, swapped: Callable[[Transaction, Asked], Awaitable[None]]
) -> None:
    """A transaction that takes a lock after one that comes later in the lock order fails its test."""
    asked = await ask(database)
    lock_recorder.check(database_url)
    async with database.transaction() as tx:
        await swapped(tx, asked)
    with pytest.raises(AssertionError, match="locks out of order"):
        lock_recorder.check(database_url)


async def test_a_parent_that_is_locked_before_its_child_is_found(
    database: Database, database_url: str
) -> None:
    """A transaction that locks a run and then a child run of it fails its test."""
    parent, _ = await start(database)
    child, _ = await start(database, parent_run_id=parent)
    for order, fails in ((child, parent), False), ((parent, child), True):
        async with database.transaction() as tx:
            for run_id in order:
                await runs.lock(tx, run_id)
        if fails:
            with pytest.raises(AssertionError, match="a parent before its child"):
                lock_recorder.check(database_url)
        else:
            lock_recorder.check(database_url)


async def test_rows_that_are_locked_already_are_written_in_any_order(
    database: Database, database_url: str
) -> None:
    """What a transaction has locked, it may lock and write again at any time."""
    asked = await ask(database)
    async with database.transaction() as tx:
        await request_locks.lock(tx, asked.request_id)
        await call_locks.lock(tx, asked.call_id)
        await audit.lock_heads(tx, [request_subject(asked.request_id)])
        await request_locks.lock(tx, asked.request_id)
        calls.mark_announced(tx, asked.call_id)
    lock_recorder.check(database_url)

"""Calls that only wait. Polling wakes them by the database's clock."""

from __future__ import annotations

from uuid import UUID

from agent.database.pools import Database
from agent.domain.run import AnswerKind, CallAnswer, CallState
from agent.store import call_locks, calls, outbox, runs
from agent.usecases import call_answers
from signoff.values import Action


async def sleep_until_ready(db: Database, call_id: UUID, action: Action, seconds: float) -> None:
    async with db.transaction() as tx:
        call = await call_locks.lock_new(tx, call_id)
        if call is None or call.state is not CallState.NEW or call.unneeded:
            return
        calls.sleep_until_ready(tx, call_id, action, seconds)
        if call.destination is not None:
            outbox.enqueue(tx, [outbox.run_root(call.destination, call.run_id)])


async def wake_up(db: Database, call_id: UUID) -> None:
    async with db.transaction() as tx:
        run_id = await call_locks.run_of(tx, call_id)
        run = await runs.lock(tx, run_id) if run_id else None
        call = await call_locks.lock(tx, call_id)
        if run is None or call is None or call.state is not CallState.READY:
            return
        call_answers.answer(tx, run, call.ended, CallAnswer(AnswerKind.RESULT, "null"))
        if run.destination is not None:
            outbox.enqueue(tx, [outbox.run_root(run.destination, run.id)])

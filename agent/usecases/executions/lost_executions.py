"""Attempts whose worker is gone are in doubt until people settle them; idempotent ones are retried a few times."""

from __future__ import annotations

from functools import partial
from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.request import ExecutionStatus
from agent.store import audit, executions, external_executions, runs
from agent.store.executions import Attempt
from agent.usecases.attempts import MAX_ATTEMPTS, Outcome
from agent.usecases.batches import FailedItems, one_by_one
from agent.usecases.executions import external, internal

_BROKEN = FailedItems("rescue")


async def rescue(db: Database, *, batch_size: int = 200) -> int:
    lost = await db.read(executions.lost, batch_size, _BROKEN.ids)
    return await one_by_one(lost, partial(_rescue_one, db), _BROKEN)


async def _rescue_one(db: Database, execution_id: UUID) -> bool:
    async with db.transaction() as tx:
        run_id = await executions.run_of(tx, execution_id)
        if run_id is None:
            return await _rescue_external(tx, execution_id)
        return await _rescue_call(tx, run_id, execution_id)


async def _rescue_call(tx: Transaction, run_id: UUID, execution_id: UUID) -> bool:
    """Retry up to three times while the run goes on; then leave it in doubt, or fail a read-only call."""
    run = await runs.lock(tx, run_id)
    attempt = await executions.lock(tx, execution_id)
    if run is None or attempt is None or not _is_lost(attempt):
        return False
    words = (
        f"{attempt.worker} claimed it and has not reported an outcome (attempt {attempt.attempt})"
        if attempt.outside
        else f"the worker {attempt.worker} disappeared during attempt {attempt.attempt}"
    )
    head = await audit.lock_head(tx, attempt.subject)
    if attempt.idempotent and internal.is_wanted(run, attempt) and attempt.attempt < MAX_ATTEMPTS:
        internal.try_again(tx, run, attempt, Outcome(ExecutionStatus.FAILED, words), head)
    else:
        status = ExecutionStatus.FAILED if attempt.read_only else ExecutionStatus.IN_DOUBT
        internal.write_outcome(tx, run, attempt, Outcome(status, words), head)
    return True


async def _rescue_external(tx: Transaction, execution_id: UUID) -> bool:
    attempt = await external_executions.lock(tx, execution_id)
    if attempt is None or not _is_lost(attempt):
        return False
    words = f"{attempt.worker} claimed it and has not reported an outcome (attempt {attempt.attempt})"
    head = await audit.lock_head(tx, attempt.subject)
    outcome = Outcome(ExecutionStatus.IN_DOUBT, words, attempt.seconds)
    external.write_outcome(tx, attempt, outcome, head, audit.SYSTEM)
    return True


def _is_lost(attempt: Attempt) -> bool:
    return attempt.status is ExecutionStatus.CLAIMED and attempt.lease_over

"""Attempts whose worker or program no longer holds its lease: they are tried again, or are in doubt."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from uuid import UUID

from agent.database.pools import Database
from agent.domain.request import ExecutionStatus
from agent.domain.run import RunLease
from agent.store import audit, executions, run_leases, runs
from agent.usecases.batches import FailedItems, one_by_one
from agent.usecases.calls.attempts import LEASE_SECONDS, MAX_ATTEMPTS, Outcome
from agent.usecases.calls.reports import is_wanted, try_again, write_outcome

_BROKEN = FailedItems("rescue")


async def rescue(db: Database, *, batch_size: int = 200) -> int:
    """Retry attempts whose leases have expired, or put them in doubt; return how many, at most a batch."""
    lost = await db.read(executions.lost, batch_size, _BROKEN.ids)
    return await one_by_one(lost, partial(_rescue_one, db), _BROKEN)


async def _rescue_one(db: Database, execution_id: UUID) -> bool:
    """Retry up to three times while it is wanted; then leave it in doubt, or fail a read-only call."""
    async with db.transaction() as tx:
        run_id = await executions.run_of(tx, execution_id)
        run = await runs.lock(tx, run_id) if run_id else None
        attempt = await executions.lock(tx, execution_id)
        if attempt is None or attempt.status is not ExecutionStatus.CLAIMED or not attempt.lease_over:
            return False
        words = (
            f"{attempt.worker} claimed it and has not reported an outcome (attempt {attempt.attempt})"
            if attempt.outside
            else f"the worker {attempt.worker} disappeared during attempt {attempt.attempt}"
        )
        head = await audit.lock_head(tx, attempt.subject)
        if attempt.idempotent and is_wanted(run, attempt) and attempt.attempt < MAX_ATTEMPTS:
            try_again(tx, attempt, Outcome(ExecutionStatus.FAILED, words), head)
        else:
            status = ExecutionStatus.FAILED if attempt.read_only else ExecutionStatus.IN_DOUBT
            write_outcome(tx, run, attempt, Outcome(status, words), head, audit.SYSTEM)
    return True


async def renew_leases(
    db: Database, worker: str, execution_ids: Collection[UUID], turns: Collection[RunLease]
) -> list[UUID]:
    """Lost leases stay lost. Returns the executions whose leases were renewed.

    Each statement commits alone: a process that is suspended between them holds no lock.
    """
    async with db.counting() as connection:
        if turns:
            await run_leases.renew(connection, turns, LEASE_SECONDS)
        if not execution_ids:
            return []
        return await executions.renew_leases(connection, execution_ids, worker, LEASE_SECONDS)

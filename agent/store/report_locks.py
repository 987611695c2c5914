"""What reports on any number of attempts lock, level by level and by id, and then read, in one round trip."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from agent.database.transaction import Connection, query
from agent.store import audit, executions, runs
from agent.store.audit import ChainHead
from agent.store.executions import CallAttempt
from agent.store.runs import LockedRun


@dataclass(frozen=True, slots=True)
class ReportedAttempt:
    """A locked attempt with its locked run and the head of the chain that tells of it."""

    run: LockedRun
    attempt: CallAttempt
    head: ChainHead


async def lock(
    connection: Connection,
    execution_ids: Collection[UUID],
    run_ids: Collection[UUID],
    subjects: Collection[str],
    *,
    wait: bool,
) -> dict[UUID, ReportedAttempt]:
    """These attempts, locked; unknown ones stay out, and without ``wait`` those that somebody else holds."""
    locks = (
        (runs.TAKE, executions.TAKE, audit.TAKE_HEADS)
        if wait
        else (runs.TRY, executions.TRY, audit.TRY_HEADS)
    )
    taken, found, chains, run_rows, attempt_rows = await query(
        connection,
        *locks,
        runs.READ,
        executions.READ,
        ids=list(execution_ids),
        runs=list(run_ids),
        subjects=list(subjects),
    )
    held = {row.id for row in (*taken, *found)}
    heads = {row.subject: row for row in chains}
    locked = {row.id: runs.locked(row) for row in run_rows if row.id in held}
    return {
        row.id: ReportedAttempt(
            locked[row.run_id], executions.attempt(row), audit.chain_head(heads[row.subject], row.at)
        )
        for row in attempt_rows
        if row.id in held and row.run_id in locked and row.subject in heads
    }

"""Lock and read many reported attempts in one round trip."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, query
from agent.store import audit, executions, runs
from agent.store.audit import ChainHead
from agent.store.executions import CallAttempt
from agent.store.runs import LockedRun


@dataclass(frozen=True, slots=True)
class ReportedAttempt:
    """An attempt whose outcome is reported, locked with its run and the head of its audit chain."""

    run: LockedRun | None
    """None: a program proposed the call, and reads the outcome itself."""
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
    """Unknown attempts are left out; without ``wait``, also those locked elsewhere."""
    of_runs = (runs.TAKE,) if run_ids else ()
    locks = (*of_runs, executions.TAKE, audit.TAKE_HEADS) if wait else (_TRY,)
    *taken, attempt_rows = await query(
        connection,
        *locks,
        *((runs.READ,) if run_ids else ()),
        executions.READ,
        ids=list(execution_ids),
        runs=list(run_ids),
        subjects=list(subjects),
    )
    run_rows = taken.pop() if run_ids else []
    held, heads = audit.ids_and_heads(taken)
    locked = {row.id: runs.locked(row) for row in run_rows if row.id in held}
    return {
        row.id: ReportedAttempt(
            locked.get(row.run_id), executions.attempt(row), audit.chain_head(heads[row.subject], row.at)
        )
        for row in attempt_rows
        if row.id in held and (row.run_id is None or row.run_id in locked) and row.subject in heads
    }


# One statement, because nothing waits: each part depends on those before. A row written since it began is locked and
# read as it is now.
_TRY = text("""
WITH run AS MATERIALIZED (
    SELECT a.id FROM agent_run AS a WHERE a.id = ANY (ARRAY(SELECT unnest(CAST(:runs AS uuid[]))))
    ORDER BY a.id FOR NO KEY UPDATE OF a SKIP LOCKED
), attempt AS MATERIALIZED (
    SELECT e.id FROM execution AS e JOIN tool_call AS c ON c.id = e.call_id
    WHERE e.id = ANY (ARRAY(SELECT unnest(CAST(:ids AS uuid[])))) AND (SELECT count(*) FROM run) >= 0
    ORDER BY c.id FOR NO KEY UPDATE OF c, e SKIP LOCKED
), head AS MATERIALIZED (
    SELECT h.subject, h.seq, h.hash FROM audit_head AS h
    WHERE h.subject = ANY (ARRAY(SELECT unnest(CAST(:subjects AS text[])))) AND (SELECT count(*) FROM attempt) >= 0
    ORDER BY h.subject FOR NO KEY UPDATE OF h SKIP LOCKED
)
SELECT CAST(NULL AS uuid) AS id, subject, seq, hash FROM head
UNION ALL SELECT id, NULL, NULL, NULL FROM run UNION ALL SELECT id, NULL, NULL, NULL FROM attempt
""")

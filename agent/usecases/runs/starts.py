"""A run starts, once for each start key."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from uuid import UUID

import structlog

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.database.wakeups import Wakeup
from agent.domain.audit import AuditKind, run_subject
from agent.domain.run import NewRun, RunStatus
from agent.store import audit, clock, outbound, outbox, runs
from agent.store.audit import AuditEntry, ChainHead
from agent.store.ids import new_id
from agent.store.outbox import Destination
from signoff.description import bounded

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StartOutcome:
    """``created`` is false if the run existed."""

    run_id: UUID
    created: bool


async def start(db: Database, new: NewRun) -> StartOutcome:
    """Start a run, or find the one that was started with the same start key before."""
    run_id = new_id()
    async with db.transaction() as tx:
        if not await write_run(tx, run_id, new):
            return StartOutcome(await runs.run_by_start_key(tx, new.start_key), created=False)
    return StartOutcome(run_id, created=True)


async def write_run(tx: Transaction, run_id: UUID, new: NewRun) -> bool:
    """False: the start key is taken, and nothing is written."""
    if await _write(tx, run_id, new) is None:
        return False
    tx.wake(Wakeup.run(run_id, new.agent))
    return True


async def write_failed_run(tx: Transaction, run_id: UUID, new: NewRun, cause: str) -> None:
    """The run failed before it began; resuming starts it. Its start key must be new."""
    head = await _write(tx, run_id, new)
    if head is None:
        raise AssertionError(f"there is a run with the start key {new.start_key}")
    runs.end(tx, run_id, RunStatus.FAILED, cause)
    detail = {"status": RunStatus.FAILED.value, "cause": bounded(cause, 200)}
    audit.append(tx, head, AuditEntry(AuditKind.RUN_ENDED, audit.SYSTEM, detail))
    outbound.enqueue_finished(tx, run_id)
    if new.team_id and new.channel_id:
        there = Destination(new.team_id, new.channel_id)
        line = outbox.run_line(there, run_id, "failed", cause=cause, run=str(run_id))
        outbox.enqueue(tx, [outbox.telling(line)])


async def _write(tx: Transaction, run_id: UUID, new: NewRun) -> ChainHead | None:
    if not await runs.insert(tx, run_id, new):
        return None
    runs.add_first_message(tx, run_id, new.task, new.requester)
    tx.after_commit(
        partial(log.info, "run started", action="run.started", run_id=str(run_id), agent=new.agent)
    )
    head = audit.new_head(run_subject(run_id), await clock.now(tx))
    detail = {"agent": new.agent, "version": new.agent_version, "requester": str(new.requester)}
    detail["asserted"] = new.requester_asserted
    if new.parent_call_id is not None:
        detail |= {"above": str(new.parent_run_id), "call": str(new.parent_call_id)}
    after = audit.append(tx, head, AuditEntry(AuditKind.RUN_STARTED, new.principal, detail))
    if new.team_id and new.channel_id:
        outbox.enqueue(tx, [outbox.run_root(Destination(new.team_id, new.channel_id), run_id)])
    return after

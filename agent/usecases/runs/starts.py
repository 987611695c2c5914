"""A run starts, once for each start key."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from signoff.values import Person

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StartOutcome:
    """``created`` is false if the run existed."""

    run_id: UUID
    created: bool


@dataclass(frozen=True, slots=True)
class QuotedMessage:
    """What somebody wrote before the run: words for the agent, so whoever wrote them instructs it."""

    text: str
    author: Person | None


async def start(db: Database, new: NewRun, quoted: QuotedMessage | None = None) -> StartOutcome:
    """Start a run, or find the one that was started with the same start key before."""
    run_id = new_id()
    async with db.transaction() as tx:
        if not await write_run(tx, run_id, new, quoted):
            return StartOutcome(await runs.run_by_start_key(tx, new.start_key), created=False)
    return StartOutcome(run_id, created=True)


async def write_run(tx: Transaction, run_id: UUID, new: NewRun, quoted: QuotedMessage | None = None) -> bool:
    """False: the start key is taken, and nothing is written."""
    if await _write(tx, run_id, new, quoted) is None:
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


async def _write(
    tx: Transaction, run_id: UUID, new: NewRun, quoted: QuotedMessage | None = None
) -> ChainHead | None:
    # A function agent has its task, and no messages.
    whole = new if quoted is None else replace(new, task=f"{new.task}\n\n{quoted.text}")
    if not await runs.insert(tx, run_id, whole):
        return None
    runs.add_first_message(tx, run_id, new.task, new.requester)
    if quoted is not None:
        runs.add_first_message(tx, run_id, quoted.text, quoted.author, seq=2)
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

"""How a run begins: its row, the transcript's first one, its chain, its thread and the hint, in one transaction."""

from __future__ import annotations

from functools import partial
from uuid import UUID

import structlog

from agent.database import jobs
from agent.database.transaction import Transaction
from agent.domain.audit import AuditKind, run_subject
from agent.domain.run import NewRun
from agent.store import audit, clock, outbox, runs
from agent.store.audit import AuditEntry
from agent.store.outbox import Destination

log = structlog.get_logger(__name__)


async def begin_run(tx: Transaction, run_id: UUID, new: NewRun) -> bool:
    """Begin it. False, and nothing is written, when its start key is taken."""
    if not await runs.insert(tx, run_id, new):
        return False
    runs.add_first_message(tx, run_id, new.task, new.requester)
    tx.after_commit(
        partial(log.info, "run started", action="run.started", run_id=str(run_id), agent=new.agent)
    )
    head = audit.new_head(run_subject(run_id), await clock.now(tx))
    detail = {"agent": new.agent, "version": new.agent_version, "requester": str(new.requester)}
    detail["asserted"] = new.requester_asserted
    if new.parent_call_id is not None:
        detail |= {"above": str(new.parent_run_id), "call": str(new.parent_call_id)}
    audit.append(tx, head, AuditEntry(AuditKind.RUN_STARTED, new.principal, detail))
    if new.team_id and new.channel_id:
        outbox.enqueue(tx, [outbox.run_root(Destination(new.team_id, new.channel_id), run_id)])
    tx.hint(jobs.advance_run(run_id))
    return True

"""How a run begins: its row, the transcript's first one, its chain, its thread and the hint, in one transaction."""

from __future__ import annotations

from uuid import UUID

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from agent.database import jobs
from agent.database.batch import Batch
from agent.domain.audit import AuditKind, run_subject
from agent.domain.run import NewRun
from agent.store import audit, locks, outbox, runs
from agent.store.audit import AuditEntry
from agent.store.outbox import Destination

log = structlog.get_logger(__name__)


async def begin_run(connection: AsyncConnection, batch: Batch, run_id: UUID, new: NewRun) -> bool:
    """Begin it. False, and nothing is written, when its start key is taken."""
    if not await runs.insert(connection, run_id, new):
        return False
    runs.add_first_message(batch, run_id, new.task, new.requester)
    log.info("run started", action="run.started", run_id=str(run_id), agent=new.agent)
    head = audit.new_head(run_subject(run_id), await locks.clock(connection))
    detail = {"agent": new.agent, "version": new.agent_version, "requester": str(new.requester)}
    detail["asserted"] = new.requester_asserted
    if new.parent_call_id is not None:
        detail |= {"above": str(new.parent_run_id), "call": str(new.parent_call_id)}
    audit.append(batch, head, AuditEntry(AuditKind.RUN_STARTED, new.principal, detail))
    if new.team_id and new.channel_id:
        outbox.enqueue(batch, [outbox.run_root(Destination(new.team_id, new.channel_id), run_id)])
    batch.hint(jobs.advance_run(run_id))
    return True

"""How a run begins: its row, the transcript's first one, its chain, its thread and the hint, in one transaction."""

from __future__ import annotations

from uuid import UUID

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from agent import jobs
from agent.domain.audit import AuditKind, run_subject
from agent.domain.run import NewRun
from agent.store import chain, locks, outbox
from agent.store.batch import Batch
from agent.store.chain import Entry
from agent.store.outbox import Outlet
from agent.store.writes import runs

log = structlog.get_logger(__name__)


async def begin_run(connection: AsyncConnection, batch: Batch, run_id: UUID, new: NewRun) -> bool:
    """Begin it. False, and nothing is written, when its start key is taken."""
    if not await runs.insert(connection, run_id, new):
        return False
    runs.add_first_message(batch, run_id, new.task, new.requester)
    log.info("run started", action="run.started", run_id=str(run_id), agent=new.agent)
    head = chain.fresh(run_subject(run_id), await locks.clock(connection))
    detail = {"agent": new.agent, "version": new.agent_version, "requester": str(new.requester)}
    detail["asserted"] = new.requester_asserted
    if new.parent_call_id is not None:
        detail |= {"above": str(new.parent_run_id), "call": str(new.parent_call_id)}
    chain.append(batch, head, Entry(AuditKind.RUN_STARTED, new.principal, detail))
    if new.team_id and new.channel_id:
        outbox.tell(batch, [outbox.run_root(Outlet(new.team_id, new.channel_id), run_id)])
    batch.hint(jobs.advance_run(run_id))
    return True

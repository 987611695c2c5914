"""A person's word on an execution whose outcome nobody can know."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Row

from agent.approvals.rights import requester
from agent.domain.audit import AuditKind
from agent.domain.changes import between, told
from agent.domain.errors import Conflict, NotFound, Refusal, Refused
from agent.domain.people import Standing
from agent.domain.run import Answer, AnswerKind
from agent.store import chain, locks, outbox
from agent.store.batch import Batch
from agent.store.chain import Entry
from agent.store.database import Database
from agent.store.outbox import Outlet
from agent.store.writes import calls, executions, runs


async def settle(
    db: Database,
    execution_id: UUID,
    settler: Standing,
    verdict: Literal["retry", "done"],
    note: str | None = None,
) -> None:
    """A person's word on an execution in doubt: try it again, or take it as done.

    The same people may settle who may review; for a call that nobody was asked about, its requester. The first
    word counts. Raises ``NotFound``, ``Conflict`` (settled or not in doubt) and ``Refused``.
    """
    async with db.transaction() as connection:
        run_id = await locks.run_of_execution(connection, execution_id)
        run = await runs.lock(connection, run_id) if run_id else None
        doubt = await locks.execution(connection, execution_id)
        if run is None or doubt is None:
            raise NotFound(f"no execution {execution_id}")
        if doubt.call_state != "in_doubt" or doubt.status != "in_doubt" or doubt.settled:
            raise Conflict("this execution is not in doubt any more")
        _may_settle(doubt, settler)
        batch = Batch()
        subject = chain.request_subject(doubt.request_id) if doubt.request_id else chain.run_subject(run.id)
        head = (await chain.lock_heads(connection, [subject]))[subject]
        executions.settle(batch, execution_id, verdict, settler.person, note)
        detail = {"execution": str(execution_id), "verdict": verdict}
        chain.append(batch, head, Entry(AuditKind.EXECUTION_SETTLED, chain.actor(settler.person), detail))
        _go_on(batch, run, doubt, verdict, note)
        if doubt.request_id:
            outlet = Outlet(doubt.team_id, doubt.channel_id)
            line = outbox.request_line(
                outlet, doubt.request_id, "settled", settler.person, text=verdict, reason=note
            )
            outbox.tell(batch, [outbox.card(outlet, doubt.request_id), line])
        await batch.send(connection)


def _may_settle(doubt: Row[Any], settler: Standing) -> None:
    if settler.refusal is not None:
        raise Refused(settler.refusal)
    asker = requester(doubt)
    if doubt.request_id is None:
        if settler.person != asker:
            raise Refused(Refusal.NOT_A_REVIEWER)
        return
    if not settler.roles & set(doubt.approvers):
        raise Refused(Refusal.NOT_A_REVIEWER)
    if doubt.prevent_self_review and settler.person == asker:
        raise Refused(Refusal.SELF_REVIEW)


def _go_on(batch: Batch, run: runs.LockedRun, doubt: Row[Any], verdict: str, note: str | None) -> None:
    if verdict == "retry":
        calls.make_ready_again(batch, doubt.call_id)
        return
    call = runs.EndedCall(
        doubt.call_id,
        doubt.tool,
        doubt.raw_arguments,
        doubt.blocking,
        doubt.request_id,
        None,
        doubt.repeats,
        told(between(doubt.proposed_action, doubt.edited_action)),
    )
    runs.answer(batch, run, call, Answer(AnswerKind.DONE_BY_PERSON, note or ""))

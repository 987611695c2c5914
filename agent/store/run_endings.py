"""How a run ends before its agent is done, and what ends with it. The run's row is locked by the caller."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import text

from agent import tracing
from agent.database.transaction import Transaction
from agent.domain.audit import AuditKind, request_subject, run_subject
from agent.domain.request import RequestStatus
from agent.domain.run import RunStatus
from agent.store import ancestors, audit, open_requests, outbound, outbox, request_endings, runs
from agent.store.audit import AuditEntry
from agent.store.runs import LockedRun
from signoff.values import Person

log = structlog.get_logger(__name__)


async def end_run(
    tx: Transaction,
    run: LockedRun,
    status: RunStatus,
    cause: str,
    by: Person | None = None,
    *,
    actor: str | None = None,
    upwards: bool = False,
    with_above: bool = False,
    **facts: Any,
) -> list[UUID]:
    """End the run, or with ``upwards`` also all those above it; their open requests are withdrawn.

    Nothing of theirs begins that has not begun; an attempt that is under way ends as it ends. Runs below those that
    end are ended by the caller afterwards, or by the sweep. The call above is answered, so that its agent goes on;
    ``with_above``: the caller ends that agent's run in this transaction, too.

    Returns the ids of the runs that ended, the given one first.
    """
    ended = [run]
    parent = run.parent_run_id
    while upwards and parent is not None:
        above = await runs.lock(tx, parent)
        if above is None or above.over:
            break
        ended.append(above)
        parent = above.parent_run_id
    for each in ended:
        answer = ancestors.ending_answer(each, status, cause, facts.get("reason"))
        it_ends = with_above or each is not ended[-1]
        await ancestors.answer_parent(tx, each, answer, it_ends=it_ends)
    await withdraw_open(tx, [each.id for each in ended], by, "the run has ended")
    why = "the run was cancelled" if status is RunStatus.CANCELLED else "the run has ended"
    await _stop_calls(tx, [each.id for each in ended], why)
    for each in ended:
        tx.add(_END_RUN, run=each.id, status=status.value, cause=cause)
        head = (await audit.lock_heads(tx, [run_subject(each.id)]))[run_subject(each.id)]
        detail = {"status": status.value, "cause": cause[:200]}
        audit.append(tx, head, AuditEntry(AuditKind.RUN_ENDED, actor or audit.actor(by), detail))
        outbound.enqueue_finished(tx, each.id)
        tx.after_commit(partial(tracing.note_end, "run", each.id))
        tx.after_commit(
            partial(log.info, "run ended", action="run.ended", run_id=str(each.id), status=status.value)
        )
        if each.destination:
            about = {"run": str(each.id)} if status is RunStatus.FAILED else {}
            outgoing = [
                outbox.run_line(each.destination, each.id, status.value, cause=cause, **about, **facts)
            ]
            outbox.enqueue(tx, [*outgoing, outbox.run_root(each.destination, each.id)])
    return [each.id for each in ended]


async def withdraw_open(tx: Transaction, run_ids: list[UUID], by: Person | None, reason: str) -> None:
    """Withdraw every waiting request of these runs: nobody is asked in vain."""
    rows = await open_requests.lock_waiting(tx, run_ids)
    if not rows:
        return
    heads = await audit.lock_heads(tx, [request_subject(row.id) for row in rows])
    withdrawn = [
        request_endings.RequestEnding(
            request_id=row.id,
            call_id=row.call_id,
            destination=row.destination,
            revision=row.revision,
            digest=row.digest,
            outcome=RequestStatus.CANCELLED,
            by=by,
            reason=reason,
            head=heads[request_subject(row.id)],
        )
        for row in rows
    ]
    request_endings.end_requests(tx, withdrawn)


async def _stop_calls(tx: Transaction, run_ids: list[UUID], reason: str) -> None:
    """Calls that are not judged yet, or may run already, will not; the cards of approved ones say so."""
    for request_id, destination in await open_requests.approved(tx, run_ids):
        outbox.enqueue(
            tx,
            [outbox.card(destination, request_id), outbox.request_line(destination, request_id, "stopped")],
        )
    tx.add(_STOP_CALLS, runs=run_ids, reason=reason)


_END_RUN = text("""
UPDATE agent_run SET status = :status, cause = :cause, updated_at = clock_timestamp(),
                     lease_epoch = lease_epoch + 1, lease_until = NULL, lease_worker = NULL, heard = inputs
WHERE id = :run
""")
_STOP_CALLS = text("""
UPDATE tool_call SET state = 'refused', answer_kind = 'withdrawn', answer = :reason
WHERE run_id = ANY(:runs) AND state IN ('new', 'ready')
""")

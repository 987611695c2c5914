"""Approved calls that end before they begin: void, called off, or not claimed in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.database.wakeups import Wakeup
from agent.domain.audit import AuditKind, request_subject
from agent.domain.errors import NotFound
from agent.domain.judgement import Judgement
from agent.domain.policy import check_epoch
from agent.domain.run import AnswerKind, CallAnswer, CallState
from agent.store import (
    audit,
    call_locks,
    calls,
    exclusions,
    judgements,
    outbox,
    request_locks,
    requests,
    runs,
)
from agent.store.audit import AuditEntry
from agent.store.call_locks import StoredCall
from agent.store.calls import OverdueCall
from agent.store.ids import new_id
from agent.store.requests import NewRequest
from agent.store.runs import LockedRun
from agent.usecases.batches import FailedItems, isolate_failures
from agent.usecases.calls import attempts
from agent.usecases.requests.opening import OpenOutcome, write_request
from signoff.description import bounded
from signoff.errors import Conflict


async def void_and_ask(
    db: Database,
    call_id: UUID,
    request_id: UUID | None,
    new: NewRequest,
    because: str = "what was shown has changed",
    *,
    outdated: bool = False,
) -> OpenOutcome:
    """Void the approval of a ready call under this request, and ask people again.

    Raises ``NotFound``, ``OutdatedPolicy``, and ``Conflict`` if the call no longer waits to begin.
    """
    async with db.transaction() as tx:
        run, call = await _lock(tx, call_id)
        check_epoch(new.policy_epoch, call.policy_epoch)
        if call.state is not CallState.READY or request_id is None or call.request_id != request_id:
            raise Conflict("the call is not waiting to run under this approval")
        if run is not None and run.over and call.repeats is None:
            raise Conflict("the run has ended, so nothing would receive the outcome")
        again = new_id()
        old = await audit.lock_head(tx, call.subject)
        requests.void(tx, request_id, old.at)
        detail = {"because": because, "anew": str(again)}
        audit.append(tx, old, AuditEntry(AuditKind.REQUEST_REOPENED, audit.SYSTEM, detail))
        if call.editor is not None:
            new = replace(new, editor=call.editor, changes=call.changes)
        calls.mark_asked(tx, new, blocking=call.blocking)
        if run is not None and call.blocking:
            runs.park(tx, run.id)
        _, involved = await exclusions.involved(tx, new.lineage)
        # Values of an earlier editor may still be in the action, and a program's lineage has an end.
        people = list(dict.fromkeys([*involved, *call.excluded]))
        head = audit.new_head(request_subject(again), old.at)
        write_request(tx, again, new, call.ask_no + 1, head, people)
        outbox.enqueue(tx, [*attempts.card(call), *attempts.line(call, "outdated" if outdated else "voided")])
    return OpenOutcome(again, created=True)


async def call_off(
    db: Database,
    call_id: UUID,
    reason: str,
    *,
    principal: str,
) -> bool:
    """Call off a run's approved call. False: begun or not approved. Raises ``NotFound``."""
    async with db.transaction() as tx:
        run, call = await _lock(tx, call_id)
        if run is None or call.state is not CallState.READY:
            return False
        await _stop(tx, call, reason, principal, AnswerKind.WITHDRAWN)
    return True


async def end_unclaimed(
    db: Database,
    call_id: UUID,
    request_id: UUID | None,
    reason: str,
    *,
    worker: str,
    policy_epoch: int,
    judgement: Judgement | None = None,
) -> None:
    """End a run's call that no program may begin any more, or again.

    One that has begun, or was stopped or asked again meanwhile, is left alone. ``request_id``: that it was judged
    under. ``judgement``: denies a call that nobody was asked about. Raises ``NotFound`` and ``OutdatedPolicy``.
    """
    async with db.transaction() as tx:
        run, call = await _lock(tx, call_id)
        check_epoch(policy_epoch, call.policy_epoch)
        if run is None or call.state is not CallState.READY or call.request_id != request_id:
            return
        if judgement is not None and not call.attempts:
            judgements.insert(tx, judgement, call_id=call_id)
        kind = AnswerKind.ERROR if call.attempts else AnswerKind.NOTHING_DONE
        await _stop(tx, call, reason, f"worker:{worker}", kind)


async def _stop(tx: Transaction, call: StoredCall, reason: str, actor: str, kind: AnswerKind) -> None:
    calls.stop(tx, call.id, call.agent, reason, kind)
    detail = {"call": str(call.id), "reason": bounded(reason, 200)}
    await audit.record(tx, call.subject, AuditKind.APPROVAL_CALLED_OFF, actor, detail)
    line = "not_repeated" if call.attempts else "stopped"
    outbox.enqueue(tx, [*attempts.card(call), *attempts.line(call, line, text=reason)])


async def _lock(tx: Transaction, call_id: UUID) -> tuple[LockedRun | None, StoredCall]:
    """Lock the call behind its run, if any, and its request; holds the pause switch. Raises ``NotFound``."""
    run_id = await call_locks.run_to_judge(tx, call_id)
    run = await runs.lock(tx, run_id) if run_id else None
    await request_locks.lock_of_call(tx, call_id)
    call = await call_locks.lock(tx, call_id)
    if call is None or call.run_id != run_id:
        raise NotFound(f"no tool call {call_id}")
    return run, call


UNCLAIMED = "no program claimed it in time"


async def lapse_due(db: Database, *, batch_size: int = 200) -> int:
    """End calls that no program has claimed in time. An approval that its program has read is left in doubt."""
    return await isolate_failures(db, calls.lock_overdue, _lapse, size=batch_size, broken=_BROKEN)


_BROKEN = FailedItems("lapse")


def _answer(call: OverdueCall) -> CallAnswer:
    """What was claimed before, or read by a program that may act, may have had its effect."""
    unbegun = not call.attempted and call.handed_over_at is None
    return CallAnswer(AnswerKind.NOTHING_DONE if unbegun else AnswerKind.ERROR, UNCLAIMED)


async def _lapse(tx: Transaction, due: Sequence[OverdueCall]) -> None:
    asked = [(each, each.request_id, each.destination) for each in due]
    heads = await audit.lock_heads(tx, [request_subject(request) for _, request, _ in asked if request])
    at = next((head.at for head in heads.values()), None)
    calls.lapse(tx, {each.id: _answer(each) for each in due}, at)
    tx.wake(*(Wakeup.call(each.id, each.agent) for each in due if each.run_id is not None))
    for each, request_id, destination in asked:
        if request_id is None or destination is None:
            continue
        read = each.handed_over_at.isoformat() if each.handed_over_at else None
        entry = AuditEntry(AuditKind.APPROVAL_LAPSED, audit.SYSTEM, {"handed_over": read} if read else {})
        audit.append(tx, heads[request_subject(request_id)], entry)
        name = "handed_over" if read else "lapsed"
        line = outbox.request_line(destination, request_id, name, None, at=read)
        outbox.enqueue(tx, [outbox.card(destination, request_id), outbox.telling(line)])

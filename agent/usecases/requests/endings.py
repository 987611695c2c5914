"""Requests end without a vote: withdrawn, expired or escalated. An expired one may be asked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.database.wakeups import Wakeup
from agent.domain import eligibility
from agent.domain.audit import DIRECT, AuditKind, request_subject
from agent.domain.consent_terms import ConsentTerms
from agent.domain.errors import NotFound, Refused
from agent.domain.people import Standing
from agent.domain.request import RequestStatus
from agent.fault_points import point
from agent.store import audit, call_locks, calls, consent_terms, outbox, reminders, request_locks, runs
from agent.store.audit import AuditEntry, ChainHead
from agent.store.reminders import Escalation
from agent.store.request_locks import DueRequest, ExpiredRequest, LockedRequest
from agent.usecases.batches import FailedItems, isolate_failures
from agent.usecases.requests.outcomes import RequestEnding, end_requests
from signoff.errors import Conflict
from signoff.values import Person


async def withdraw(
    db: Database, request_id: UUID, by: Person | None, reason: str | None, *, principal: str | None = None
) -> bool:
    """False: already decided. Raises ``NotFound``. ``principal``: the withdrawing key."""
    async with db.transaction() as tx:
        request = await _lock(tx, request_id)
        if request.status is not RequestStatus.WAITING:
            return False
        await _withdraw(tx, request, by, reason, principal)
    return True


async def withdraw_and_rejudge(db: Database, request_id: UUID, reason: str, *, principal: str) -> bool:
    """Evaluate the call with the current code. False: already decided, or not a run's."""
    async with db.transaction() as tx:
        request = await _lock(tx, request_id)
        if request.status is not RequestStatus.WAITING or request.run_id is None:
            return False
        await _withdraw(tx, request, None, reason, principal, rejudged=True)
    return True


async def _lock(tx: Transaction, request_id: UUID) -> LockedRequest:
    request = await request_locks.lock(tx, request_id)
    if request is None:
        raise NotFound(f"no request {request_id}")
    return request


async def _withdraw(
    tx: Transaction,
    request: LockedRequest,
    by: Person | None,
    reason: str | None,
    principal: str | None,
    *,
    rejudged: bool = False,
) -> None:
    heads = await call_locks.lock_all_asked(tx, [request.id])
    shown = await request_locks.revision(tx, request.id, request.revision)
    head, cancelled = heads[request_subject(request.id)], RequestStatus.CANCELLED
    ending = RequestEnding(request, shown.digest, cancelled, head, by, reason, principal, rejudged=rejudged)
    end_requests(tx, [ending])


BATCH = 32
"""Per transaction. A click waits at most a few milliseconds for one."""


async def expire_due(db: Database, *, batch_size: int = BATCH) -> int:
    """Expire or escalate all requests past their deadlines, batch by batch; return how many."""
    due = request_locks.lock_due
    return await isolate_failures(db, due, _expire_or_escalate, size=batch_size, broken=_BROKEN)


_BROKEN = FailedItems("expire")


async def _expire_or_escalate(tx: Transaction, rows: Sequence[DueRequest]) -> None:
    heads = await call_locks.lock_all_asked(tx, [row.id for row in rows])
    due = [(row, heads[request_subject(row.id)]) for row in rows]
    # Others than those on record would go on record, so such a request expires.
    escalate = [row.id for row in rows if row.escalates]
    terms = await consent_terms.standing(tx, escalate) if escalate else {}
    end_requests(
        tx,
        [
            RequestEnding(row, row.digest, RequestStatus.EXPIRED, head)
            for row, head in due
            if row.id not in terms
        ],
    )
    _escalate(tx, [(row, head, terms[row.id]) for row, head in due if row.id in terms])
    point("in_expiry_batch")


def _escalate(tx: Transaction, due: Sequence[tuple[DueRequest, ChainHead, ConsentTerms]]) -> None:
    """Let more people decide, with the full time again."""
    if not due:
        return
    escalations = [_escalation(row, head) for row, head, _ in due]
    reminders.escalate(tx, escalations)
    entries = []
    for (row, head, terms), new in zip(due, escalations, strict=True):
        after = replace(terms, approvers=new.approvers, expires_at=new.expires_at)
        detail = {"added": list(row.escalate_to), "terms": after.digest}
        entries.append((head, AuditEntry(AuditKind.REQUEST_ESCALATED, audit.SYSTEM, detail)))
    audit.append_all(tx, entries)
    for (row, _, _), new in zip(due, escalations, strict=True):
        facts = {"people": list(row.escalate_to), "at": new.expires_at.isoformat()}
        line = outbox.request_line(row.destination, row.id, "escalated", None, **facts)
        outbox.enqueue(tx, [outbox.card(row.destination, row.id), line])


def _escalation(row: DueRequest, head: ChainHead) -> Escalation:
    return Escalation(
        request_id=row.id,
        approvers=tuple(dict.fromkeys([*row.approvers, *row.escalate_to])),
        expires_at=head.at + row.window,
        remind_next=head.at + row.window * row.remind_at[0] if row.remind_at else None,
        at=head.at,
    )


async def ask_again(db: Database, request_id: UUID, by: Standing, *, path: str = DIRECT) -> UUID:
    """Ask about an expired action as a new background call. Raises ``NotFound``, ``Conflict`` and ``Refused``."""
    async with db.transaction() as tx:
        expired = await request_locks.find_expired(tx, request_id)
        if expired is None:
            raise NotFound(f"no request {request_id} of a run")
        outcome = await _ask_again(tx, expired, by, path)
    if isinstance(outcome, Refused):
        raise outcome
    return outcome


async def _ask_again(tx: Transaction, expired: ExpiredRequest, by: Standing, path: str) -> UUID | Refused:
    run = await runs.lock(tx, expired.run_id)
    if run is None:
        raise NotFound(f"no request {expired.id} of a run")
    refusal = eligibility.asking_again_refusal(expired.requester, by)
    detail = {"path": path}
    subject = request_subject(expired.id)
    if refusal is not None:
        detail["refusal"] = refusal.value
        await audit.record(tx, subject, AuditKind.ASK_AGAIN_REFUSED, audit.actor(by.person), detail)
        return Refused(refusal)
    if expired.status is not RequestStatus.EXPIRED:
        raise Conflict("only an expired request can be asked again")
    if expired.erased:
        raise Conflict("what was asked has been erased; let the agent ask again")
    call_id, created = await calls.repeat(tx, expired.call_id)
    if created:
        detail["call"] = str(call_id)
        await audit.record(tx, subject, AuditKind.REQUEST_REOPENED, audit.actor(by.person), detail)
        outbox.enqueue(tx, [outbox.card(expired.destination, expired.id)])
        tx.wake(Wakeup.call(call_id, run.agent))
    return call_id

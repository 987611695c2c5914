"""Requests that end without a vote: taken back, or out of time; and those that get more time and more reviewers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.audit import request_subject
from agent.domain.errors import NotFound
from agent.domain.request import RequestStatus
from agent.fault_points import point
from agent.store import audit, open_requests, reminders, request_endings, request_locks
from agent.store.audit import ChainHead
from agent.store.open_requests import DueRequest, OpenRequest
from agent.store.reminders import Escalation
from agent.store.request_endings import RequestEnding
from agent.store.request_locks import LockedRequest
from agent.usecases.batches import FailedItems, isolate_failures
from signoff.values import Person


async def withdraw(
    db: Database, request_id: UUID, by: Person | None, reason: str | None, *, principal: str | None = None
) -> bool:
    """Take the question back. False when it was decided already. Raises ``NotFound``.

    ``principal`` names the key whose call it was, for the record.
    """
    async with db.transaction() as tx:
        request = await request_locks.lock(tx, request_id)
        if request is None:
            raise NotFound(f"no request {request_id}")
        if request.status is not RequestStatus.WAITING:
            return False
        subject = request_subject(request.id)
        head = (await audit.lock_heads(tx, [subject]))[subject]
        shown = await request_locks.revision(tx, request.id, request.revision)
        ended = ending(request, shown.digest, RequestStatus.CANCELLED, by, reason, head)
        request_endings.end_requests(tx, [replace(ended, principal=principal)])
    return True


async def withdraw_and_rejudge(db: Database, request_id: UUID, reason: str, *, principal: str) -> bool:
    """Take the question back and let its call be judged once more, by the code that serves it then.

    For what people were asked about under another version. False when it was decided already, or has no call.
    """
    async with db.transaction() as tx:
        request = await request_locks.lock(tx, request_id)
        if request is None:
            raise NotFound(f"no request {request_id}")
        if request.status is not RequestStatus.WAITING or request.call_id is None:
            return False
        subject = request_subject(request.id)
        head = (await audit.lock_heads(tx, [subject]))[subject]
        shown = await request_locks.revision(tx, request.id, request.revision)
        ended = ending(request, shown.digest, RequestStatus.CANCELLED, None, reason, head)
        request_endings.end_requests(tx, [replace(ended, principal=principal, judged_anew=True)])
    return True


async def expire_due(db: Database, *, batch_size: int = 100) -> int:
    """End what nobody answered in time, or escalate it where its checkpoint says so (once).

    Any number of processes may do so at once, and one that cannot be ended holds up no other. Returns how many
    deadlines were dealt with.
    """
    return await isolate_failures(
        db,
        open_requests.lock_due,
        open_requests.lock_due_one,
        _expire_or_escalate,
        size=batch_size,
        broken=_BROKEN,
    )


_BROKEN = FailedItems("expire")


async def _expire_or_escalate(tx: Transaction, rows: Sequence[DueRequest]) -> None:
    heads = await audit.lock_heads(tx, [request_subject(row.id) for row in rows])
    due = [(row, heads[request_subject(row.id)]) for row in rows]
    expired = [
        ending(row, row.digest, RequestStatus.EXPIRED, None, None, head)
        for row, head in due
        if not row.escalates
    ]
    request_endings.end_requests(tx, expired)
    reminders.escalate(tx, [_escalation(row, head) for row, head in due if row.escalates])
    point("in_expiry_batch")


def _escalation(row: DueRequest, head: ChainHead) -> Escalation:
    return Escalation(
        request_id=row.id,
        destination=row.destination,
        added=row.escalate_to,
        approvers=tuple(dict.fromkeys([*row.approvers, *row.escalate_to])),
        expires_at=head.at + row.window,
        remind_next=head.at + row.window * row.remind_at[0] if row.remind_at else None,
        head=head,
    )


def ending(
    request: LockedRequest | OpenRequest,
    digest: bytes,
    outcome: RequestStatus,
    by: Person | None,
    reason: str | None,
    head: ChainHead,
) -> RequestEnding:
    """How a locked request ends; ``digest`` is its present revision's."""
    return RequestEnding(
        request_id=request.id,
        call_id=request.call_id,
        destination=request.destination,
        revision=request.revision,
        digest=digest,
        outcome=outcome,
        by=by,
        reason=reason,
        head=head,
    )

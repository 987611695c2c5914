"""An expired request is asked again, as a new call in its run."""

from __future__ import annotations

from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.database.wakeups import Wakeup
from agent.domain import eligibility
from agent.domain.audit import DIRECT, AuditKind, request_subject
from agent.domain.errors import NotFound, Refused
from agent.domain.people import Standing
from agent.domain.request import RequestStatus
from agent.store import audit, calls, outbox, request_locks, runs
from agent.store.request_locks import ExpiredRequest
from signoff.errors import Conflict


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

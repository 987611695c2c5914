"""After an expiry: the same question once more."""

from __future__ import annotations

from uuid import UUID

from agent import jobs
from agent.approvals.rights import requester
from agent.domain.audit import AuditKind
from agent.domain.errors import Conflict, NotFound, Refusal, Refused
from agent.domain.people import Standing
from agent.domain.request import RequestStatus
from agent.store import chain, locks, outbox
from agent.store.batch import Batch
from agent.store.chain import Entry
from agent.store.database import Database
from agent.store.outbox import Outlet
from agent.store.writes import calls, runs


async def ask_again(db: Database, request_id: UUID, by: Standing) -> UUID:
    """After an expiry, let the requester have the same action judged and asked about anew.

    It becomes a new call of the same run whose outcome the model hears of when it comes; asking twice is one
    call. Returns the call's id. Raises ``NotFound``, ``Conflict`` (not expired) and ``Refused``.
    """
    async with db.transaction() as connection:
        expired = await locks.expired_call(connection, request_id)
        if expired is None:
            raise NotFound(f"no request {request_id} of a run")
        if by.refusal is not None:
            raise Refused(by.refusal)
        if by.person != requester(expired):
            raise Refused(Refusal.NOT_A_REVIEWER)
        if expired.status != RequestStatus.EXPIRED.value:
            raise Conflict("only an expired request can be asked again")
        await runs.lock(connection, expired.run_id)
        call_id, created = await calls.repeat(connection, expired.call_id)
        if not created:
            return call_id
        subject = chain.request_subject(request_id)
        head = (await chain.lock_heads(connection, [subject]))[subject]
        batch = Batch()
        entry = Entry(AuditKind.REQUEST_REOPENED, chain.actor(by.person), {"call": str(call_id)})
        chain.append(batch, head, entry)
        outbox.tell(batch, [outbox.card(Outlet(expired.team_id, expired.channel_id), request_id)])
        batch.hint(jobs.execute_call(call_id))
        await batch.send(connection)
        return call_id

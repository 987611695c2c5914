"""Grants end: revoked, or ended by a pause, a policy or a giver who is no reviewer any more."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from uuid import UUID

import structlog

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain import eligibility
from agent.domain.audit import AuditKind, person_of, request_subject
from agent.domain.errors import NotFound, Refused
from agent.domain.people import Standing
from agent.store import audit, grants, outbox
from agent.store.audit import AuditEntry, ChainHead
from agent.store.outbox import Destination

log = structlog.get_logger(__name__)

REVOKED = "revoked"


async def revoke(
    db: Database, grant_id: UUID, by: Standing, approvers: Sequence[str], *, administrator: bool, path: str
) -> bool:
    """False: already ended. Raises ``NotFound`` and ``Refused`` (recorded)."""
    refusal = eligibility.revocation_refusal(approvers, by, administrator=administrator)
    async with db.transaction() as tx:
        if refusal is None:
            return await _end(tx, grant_id, audit.actor(by.person), REVOKED, path)
        detail = {"refusal": refusal.value, "path": path}
        subject, actor = request_subject(grant_id), audit.actor(by.person)
        await audit.record(tx, subject, AuditKind.GRANT_REVOKE_REFUSED, actor, detail)
    raise Refused(refusal)


async def revoke_as_operator(db: Database, grant_id: UUID, by: str) -> bool:
    """Raises ``NotFound``."""
    async with db.transaction() as tx:
        return await _end(tx, grant_id, by, REVOKED, "cli")


async def end_all(
    tx: Transaction,
    *,
    by: str,
    because: str,
    scope: str | None = None,
    checkpoints: Collection[str] = (),
) -> None:
    """End the grants of an agent and those below it (`*`: all), or of these checkpoints.

    Locks the grants' audit heads, so call it before any other head is locked.
    """
    found = await grants.lock_live(tx, scope=scope, checkpoints=checkpoints)
    heads = await audit.lock_heads(tx, [request_subject(each.id) for each in found]) if found else {}
    ended = [(each.id, each.destination, heads[request_subject(each.id)]) for each in found]
    write_end(tx, ended, by=by, because=because)


def write_end(
    tx: Transaction,
    ended: Sequence[tuple[UUID, Destination, ChainHead]],
    *,
    by: str,
    because: str,
    path: str | None = None,
) -> None:
    """Write the end of grants whose audit heads are locked, with card and line for each; none is allowed."""
    if not ended:
        return
    at = ended[0][2].at
    grants.end(tx, [grant_id for grant_id, _, _ in ended], by=by, because=because, at=at)
    detail = {"because": because, **({"path": path} if path else {})}
    audit.append_all(tx, [(head, AuditEntry(AuditKind.GRANT_ENDED, by, detail)) for _, _, head in ended])
    for grant_id, destination, _ in ended:
        line = outbox.request_line(destination, grant_id, "grant_ended", person_of(by), text=because)
        outbox.enqueue(tx, [outbox.card(destination, grant_id), line])
        about = {"action": "grant.ended", "grant": str(grant_id), "by": by, "because": because}
        tx.after_commit(partial(log.info, "a grant has ended", **about))


async def _end(tx: Transaction, grant_id: UUID, by: str, because: str, path: str) -> bool:
    found = await grants.lock_live(tx, ids=[grant_id])
    if not found:
        if not await grants.exists(tx, grant_id):
            raise NotFound(f"no grant {grant_id}")
        return False
    head = await audit.lock_head(tx, request_subject(grant_id))
    write_end(tx, [(grant_id, found[0].destination, head)], by=by, because=because, path=path)
    return True

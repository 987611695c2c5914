"""Grants (consent in advance) and their uses.

The grant request's action holds what is allowed. A trigger counts the uses and refuses one too many.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.transaction import Connection, Transaction, fetch, query
from agent.domain.audit import request_subject
from agent.domain.grants import MAX_LIVE, Grant
from agent.store import consent_terms
from agent.store.outbox import Destination
from agent.store.rows import row_as
from signoff.values import Person


@dataclass(frozen=True, slots=True)
class StoredGrant:
    """``at`` is database time."""

    id: UUID
    agents: tuple[str, ...]
    uses: int
    used_sum: Decimal
    ended: bool
    at: datetime
    approvers: tuple[str, ...]
    destination: Destination
    action: bytes
    decided_digest: bytes
    recorded_digest: bytes | None
    """In the audit log."""
    terms_stand: bool
    """The terms of consent are those of the audit log."""
    granters: tuple[Person, ...]

    @property
    def subject(self) -> str:
        return request_subject(self.id)


@dataclass(frozen=True, slots=True)
class GrantState:
    """A grant that is neither ended nor used up, perhaps not yet approved."""

    id: UUID
    uses: int
    used_sum: Decimal
    at: datetime


@dataclass(frozen=True, slots=True)
class EarlierUse:
    """A use of a grant that is already stored under the same key, with what it was for."""

    grant_id: UUID
    content: bytes


def insert(tx: Transaction, grant_id: UUID, grant: Grant, at: datetime) -> None:
    """Call in the transaction of the grant's request."""
    tx.add(
        _INSERT,
        id=grant_id,
        agent=grant.kind.agent,
        tool=grant.kind.tool,
        checkpoint=grant.kind.checkpoint,
        agents=[*grant.kind.above, grant.kind.agent],
        until=grant.until,
        uses=grant.max_uses,
        sum=grant.max_sum,
        at=at,
    )


async def exists(connection: Connection, grant_id: UUID) -> bool:
    """Whether the grant exists, ended or not."""
    return bool(await fetch(connection, _EXISTS, id=grant_id))


async def signature_of(connection: Connection, request_id: UUID) -> bytes | None:
    """Digest of the tool's parameters when the request opened."""
    found = await fetch(connection, _SIGNATURE, id=request_id)
    return bytes(found[0].signature_digest) if found and found[0].signature_digest else None


async def lock_count(connection: Connection, agent: str, tool: str) -> int:
    """Count live or pending grants; locked until COMMIT."""
    _, counted = await query(connection, _TAKE_COUNT, _COUNT, agent=agent, tool=tool)
    found: int = counted[0].live
    return found


async def live(connection: Connection, agent: str, tool: str, checkpoint_id: str) -> Sequence[GrantState]:
    """Grants that might cover a call, earliest end first."""
    rows = await fetch(connection, LIVE, agent=agent, tool=tool, checkpoint=checkpoint_id, most=MAX_LIVE)
    return [GrantState(*row) for row in rows]


async def read(connection: Connection, grant_ids: Sequence[UUID]) -> Sequence[StoredGrant]:
    """Approved grants, earliest end first."""
    return [_stored(row) for row in await fetch(connection, _READ, ids=list(grant_ids))]


async def lock(
    connection: Connection, grant_id: UUID, key: str
) -> tuple[StoredGrant | None, EarlierUse | None]:
    """Also reads this key's use, of any grant."""
    _, found, used = await query(connection, _TAKE, _READ, _USE, ids=[grant_id], key=key)
    return (_stored(found[0]) if found else None), (row_as(EarlierUse, used[0]) if used else None)


async def earlier_use(connection: Connection, key: str) -> EarlierUse | None:
    """Return the use stored under this key, of any grant, or None; it locks nothing."""
    found = await fetch(connection, _USE, key=key)
    return row_as(EarlierUse, found[0]) if found else None


async def contradicted(connection: Connection, run_id: UUID, tool: str) -> bool:
    """Whether people rejected or edited a call of this tool in any run under the same root."""
    return bool((await fetch(connection, _CONTRADICTED, run=run_id, tool=tool))[0].contradicted)


async def contradicted_program(connection: Connection, principal: str, digest: bytes) -> bool:
    """Whether people rejected or edited exactly this action."""
    found = await fetch(connection, _CONTRADICTED_PROGRAM, principal=principal, digest=digest)
    return bool(found[0].contradicted)


def use(
    tx: Transaction,
    grant_id: UUID,
    at: datetime,
    *,
    key: str,
    amount: Decimal,
    digest: bytes,
    content: bytes = b"",
) -> None:
    """The database refuses a repeated key and one use too many."""
    tx.add(_INSERT_USE, id=grant_id, at=at, key=key, amount=amount, digest=digest, content=content)


@dataclass(frozen=True, slots=True)
class EndedGrant:
    """A live grant, locked to be ended, with the channel of its request."""

    id: UUID
    destination: Destination


async def lock_live(
    connection: Connection,
    *,
    ids: Collection[UUID] = (),
    scope: str | None = None,
    checkpoints: Collection[str] = (),
) -> list[EndedGrant]:
    """Lock live grants by id, by agent (`*`: all) or by checkpoint."""
    locked = await fetch(connection, _TAKE_LIVE, ids=list(ids), scope=scope, checkpoints=list(checkpoints))
    if not locked:
        return []
    rows = await fetch(connection, _DESTINATIONS, ids=[row.request_id for row in locked])
    return [row_as(EndedGrant, row) for row in rows]


def end(tx: Transaction, grant_ids: Sequence[UUID], *, by: str, because: str, at: datetime) -> None:
    """End these grants with the reason and who ended them; a grant that has ended stays as it is."""
    tx.add(_END, ids=list(grant_ids), by=by, because=because, at=at)


def _stored(row: Row[Any]) -> StoredGrant:
    granters = tuple(Person(each["team"], each["user"]) for each in row.granters or ())
    return row_as(StoredGrant, row, granters=granters, terms_stand=consent_terms.stand(row))


_INSERT = text("""
INSERT INTO approval_grant (request_id, agent, tool, checkpoint_id, agents, until, max_uses, max_sum, created_at)
VALUES (:id, :agent, :tool, :checkpoint, :agents, :until, :uses, :sum, :at)
""")
_EXISTS = text("SELECT 1 AS there FROM approval_grant WHERE request_id = :id")
_SIGNATURE = text("SELECT signature_digest FROM request_revision WHERE request_id = :id AND n = 1")
_TAKE_COUNT = text("""
SELECT pg_advisory_xact_lock(hashtextextended(
    'signoff grants ' || current_schema() || ' ' || :agent || chr(10) || :tool, 0)) IS NOT NULL AS locked
""")
_COUNT = text("""
SELECT count(*) AS live FROM approval_grant AS g JOIN approval_request AS r ON r.id = g.request_id
WHERE g.agent = :agent AND g.tool = :tool AND g.ended_at IS NULL AND g.until > clock_timestamp()
  AND g.uses < g.max_uses AND r.status IN ('waiting', 'approved')
""")
_TAKE = text("""
SELECT request_id FROM approval_grant WHERE request_id = ANY (ARRAY(SELECT unnest(CAST(:ids AS uuid[]))))
ORDER BY request_id FOR NO KEY UPDATE
""")
LIVE = text("""
SELECT request_id AS id, uses, used_sum, clock_timestamp() AS at FROM approval_grant
WHERE agent = :agent AND tool = :tool AND checkpoint_id = :checkpoint AND ended_at IS NULL
  AND until > (SELECT clock_timestamp()) AND uses < max_uses
ORDER BY until, request_id LIMIT :most
""")
_READ = text("""
SELECT g.request_id AS id, g.agents, g.uses, g.used_sum, g.ended_at IS NOT NULL AS ended, clock_timestamp() AS at,
       r.id AS request_id, r.approvers, r.excluded, r.approvals_required, r.expires_at, r.requester_team_id,
       r.requester_user_id,
       (SELECT detail ->> 'terms' FROM audit_event
        WHERE subject = 'request:' || r.id AND event IN ('request.opened', 'request.edited', 'request.escalated')
        ORDER BY seq DESC LIMIT 1) AS terms_recorded,
       r.team_id, r.channel_id, v.action, d.digest AS decided_digest,
       (SELECT decode(detail ->> 'digest', 'hex') FROM audit_event
        WHERE subject = 'request:' || r.id AND event = 'request.decided') AS recorded_digest,
       (SELECT json_agg(json_build_object('team', b.team_id, 'user', b.user_id)) FROM vote AS b
        WHERE b.request_id = r.id AND b.revision = d.revision AND b.superseded_by IS NULL
          AND b.verdict = 'approve') AS granters
FROM approval_grant AS g
JOIN approval_request AS r ON r.id = g.request_id
JOIN decision AS d ON d.request_id = r.id AND d.outcome = 'approved'
JOIN request_revision AS v ON v.request_id = r.id AND v.n = d.revision
WHERE g.request_id = ANY (ARRAY(SELECT unnest(CAST(:ids AS uuid[]))))
ORDER BY g.until, g.request_id
""")
_USE = text("SELECT grant_id, content FROM grant_use WHERE key = :key")
# After a rejection a model may propose nearly the same call, perhaps in a sibling run.
_CONTRADICTED = text("""
WITH RECURSIVE family AS (
    SELECT coalesce(ancestor_ids[1], id) AS id FROM agent_run WHERE id = :run
    UNION SELECT child.id FROM family JOIN agent_run AS child ON child.parent_run_id = family.id
)
SELECT EXISTS (
    SELECT FROM family JOIN approval_request AS r ON r.run_id = family.id
    JOIN request_revision AS v ON v.request_id = r.id AND v.tool = :tool
    WHERE r.status = 'rejected' OR v.editor_user_id IS NOT NULL) AS contradicted
""")
_CONTRADICTED_PROGRAM = text("""
SELECT EXISTS (
    SELECT FROM approval_request AS r JOIN request_revision AS v ON v.request_id = r.id AND v.n = 1
    WHERE r.principal = :principal AND v.digest = :digest
      AND (r.status = 'rejected' OR r.revision > 1)) AS contradicted
""")
_INSERT_USE = text("""
INSERT INTO grant_use (key, grant_id, n, amount, digest, content, used_at)
VALUES (:key, :id, 1, :amount, :digest, :content, :at)
""")
_TAKE_LIVE = text("""
SELECT request_id FROM approval_grant
WHERE ended_at IS NULL AND (request_id = ANY(CAST(:ids AS uuid[]))
                            OR CAST(:scope AS text) = '*' OR CAST(:scope AS text) = ANY (agents)
                            OR checkpoint_id = ANY(CAST(:checkpoints AS text[])))
ORDER BY request_id FOR NO KEY UPDATE
""")
_DESTINATIONS = text("SELECT id, team_id, channel_id FROM approval_request WHERE id = ANY(:ids) ORDER BY id")
_END = text("""
UPDATE approval_grant SET ended_at = :at, ended_by = :by, ended_because = :because
WHERE request_id = ANY(:ids) AND ended_at IS NULL
""")

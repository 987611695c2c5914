from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction, query
from agent.domain.coverage import StoredApproval
from agent.domain.request import RequestStatus
from agent.store import consent_terms, pause
from agent.store.executions import Attempt, NewExecution
from agent.store.outbox import Destination
from agent.store.rows import columns, row_as


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimableRequest(StoredApproval):
    policy: Mapping[str, Any]
    principal: str
    call_id: UUID | None
    status: RequestStatus
    destination: Destination
    lapsed: bool
    paused: bool
    revision: int
    action: bytes | None
    erased: bool
    has_editor: bool
    """Of this question, or of the void one that it asks again."""
    open_execution: UUID | None
    """While its lease lasts."""
    claim_hash: bytes | None
    policy_epoch: int
    """In force until COMMIT."""
    settled_as: str | None
    client_id: str
    voided: bool
    """The facts changed before it began; its client id now names the request that asks again."""
    ask_no: int


@dataclass(frozen=True, slots=True)
class ExternalAttempt(Attempt):
    request_id: UUID
    destination: Destination
    seconds: float
    """Since it began."""


async def lock_approval(connection: Connection, request_id: UUID) -> ClaimableRequest | None:
    """Reads time, decision and attempts; holds the pause switch."""
    *_, found = await query(connection, pause.HOLD, _TAKE_REQUEST, _APPROVAL, id=request_id)
    if not found:
        return None
    return row_as(ClaimableRequest, found[0], terms_stand=consent_terms.stand(found[0]))


async def lock(connection: Connection, execution_id: UUID) -> ExternalAttempt | None:
    """The attempt is locked behind its request; ``None``: not a program's."""
    *_, found = await query(connection, TAKE_REQUEST_OF_ATTEMPT, _ATTEMPT, id=execution_id)
    return row_as(ExternalAttempt, found[0]) if found else None


async def find_by_token(connection: Connection, request_id: UUID, claim_hash: bytes) -> UUID | None:
    parameters = {"request": request_id, "hash": claim_hash}
    found: UUID | None = (await connection.execute(_CLAIMED_WITH, parameters)).scalar_one_or_none()
    return found


@dataclass(frozen=True, slots=True)
class OverdueApproval:
    id: UUID
    destination: Destination
    handed_over_at: datetime | None


async def overdue_approvals(
    connection: Connection, limit: int, but: Collection[UUID] = (), only: UUID | None = None
) -> list[OverdueApproval]:
    """Lock overdue, unclaimed approvals that nobody else holds, except ``but``; or ``only`` this one."""
    due = {"limit": limit, "but": list(but), "only": only}
    return [row_as(OverdueApproval, row) for row in await connection.execute(_OVERDUE, due)]


def insert(tx: Transaction, new: NewExecution) -> None:
    """The approval cannot lapse any more; a second open attempt is refused."""
    tx.add(_BEGIN, **columns(new))
    tx.add(_TAKEN, request=new.request_id)


async def hand_over(tx: Transaction, request_ids: Collection[UUID]) -> dict[UUID, datetime]:
    """The askers read these claimable approvals. Returns the first read times."""
    rows = await tx.execute(_HAND_OVER, {"ids": list(request_ids)})
    return {row.id: row.handed_over_at for row in rows}


def reopen(tx: Transaction, request_id: UUID) -> None:
    """The executor has its full time again."""
    tx.add(_CLAIMABLE_AGAIN, request=request_id)


def lapse(tx: Transaction, request_ids: Sequence[UUID]) -> None:
    tx.add(_LAPSE, ids=list(request_ids))


_TAKE_REQUEST = text("SELECT 1 FROM approval_request WHERE id = :id FOR NO KEY UPDATE")
_APPROVAL = text("""
SELECT r.id AS request_id, r.principal, r.call_id, r.status::text AS status, r.team_id, r.channel_id,
       r.approvers, r.excluded, r.approvals_required, r.expires_at, r.requester_team_id, r.requester_user_id,
       (SELECT detail ->> 'terms' FROM audit_event
        WHERE subject = 'request:' || r.id AND event IN ('request.opened', 'request.edited', 'request.escalated')
        ORDER BY seq DESC LIMIT 1) AS terms_recorded,
       r.lapsed_at IS NOT NULL OR coalesce(r.lapse_at <= clock_timestamp(), false) AS lapsed,
       coalesce(d.revision, r.revision) AS revision, d.digest AS digest_decided,
       (SELECT decode(detail ->> 'digest', 'hex') FROM audit_event
        WHERE subject = 'request:' || r.id AND event = 'request.decided') AS digest_recorded,
       v.action, v.erased_at IS NOT NULL AS erased, v.editor_user_id IS NOT NULL AS has_editor,
       coalesce(d.revision > 1, false) AS edited, r.escalated_at IS NOT NULL AS escalated,
       coalesce(extract(epoch FROM d.decided_at - r.created_at)::float, 0) AS waited,
       coalesce(extract(epoch FROM clock_timestamp() - d.decided_at)::float, 0) AS age,
       NULL AS signature_decided, NULL AS asked_version,
       s.verdict::text AS settled_as, r.client_id, r.ask_no, r.voided_at IS NOT NULL AS voided,
       v.facts, v.facts_source, r.policy, extract(epoch FROM clock_timestamp() - v.created_at)::float AS facts_age,
       coalesce(e.attempt, 0) AS attempts, e.claim_hash,
       CASE WHEN e.status = 'claimed' AND e.lease_until > clock_timestamp() THEN e.id END AS open_execution,
       EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', r.agent)) AS paused,
       coalesce((SELECT max(epoch) FROM policy), 0) AS policy_epoch
FROM approval_request AS r
LEFT JOIN decision AS d ON d.request_id = r.id
LEFT JOIN request_revision AS v ON v.request_id = r.id AND v.n = d.revision
LEFT JOIN LATERAL (SELECT * FROM execution WHERE request_id = r.id ORDER BY attempt DESC LIMIT 1) AS e ON true
LEFT JOIN settlement AS s ON s.execution_id = e.id
WHERE r.id = :id
""")
TAKE_REQUEST_OF_ATTEMPT = text("""
SELECT 1 FROM approval_request WHERE id = (SELECT request_id FROM execution WHERE id = :id AND call_id IS NULL)
FOR NO KEY UPDATE
""")
_ATTEMPT = text("""
SELECT e.id, e.status::text AS status, e.attempt, e.worker, e.result, e.error, e.late_result,
       e.lease_until <= clock_timestamp() AS lease_over,
       e.status = 'in_doubt' AND NOT EXISTS (SELECT 1 FROM settlement WHERE execution_id = e.id) AS unsettled,
       extract(epoch FROM clock_timestamp() - e.started_at)::float AS seconds,
       'request:' || r.id AS subject, r.id AS request_id, r.team_id, r.channel_id
FROM execution AS e JOIN approval_request AS r ON r.id = e.request_id
WHERE e.id = :id AND e.call_id IS NULL FOR NO KEY UPDATE OF e
""")
_CLAIMED_WITH = text(
    "SELECT id FROM execution WHERE request_id = :request AND call_id IS NULL AND claim_hash = :hash"
)
_OVERDUE = text("""
SELECT id, team_id, channel_id, handed_over_at FROM approval_request
WHERE lapse_at <= (SELECT clock_timestamp()) AND id <> ALL(CAST(:but AS uuid[]))
  AND (CAST(:only AS uuid) IS NULL OR id = :only)
ORDER BY lapse_at LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
""")
_BEGIN = text("""
INSERT INTO execution (id, request_id, attempt, digest, idempotent, worker, claim_hash, lease_until, policy_epoch)
VALUES (:id, :request_id, :attempt, :digest, :idempotent, :worker, :claim_hash,
        clock_timestamp() + make_interval(secs => :lease_seconds), :policy_epoch)
""")
_TAKEN = text("UPDATE approval_request SET lapse_at = NULL WHERE id = :request")
_CLAIMABLE_AGAIN = text("""
UPDATE approval_request
SET lapse_at = clock_timestamp() + make_interval(secs => (policy ->> 'execute_within')::float),
    handed_over_at = NULL
WHERE id = :request
""")
_HAND_OVER = text("""
UPDATE approval_request AS r SET handed_over_at = coalesce(r.handed_over_at, clock_timestamp())
FROM (SELECT id FROM approval_request WHERE id = ANY(CAST(:ids AS uuid[])) AND lapse_at IS NOT NULL
      ORDER BY id FOR NO KEY UPDATE) AS claimable
WHERE r.id = claimable.id RETURNING r.id, r.handed_over_at
""")
_LAPSE = text("""
UPDATE approval_request SET lapse_at = NULL, lapsed_at = clock_timestamp() WHERE id = ANY(CAST(:ids AS uuid[]))
""")

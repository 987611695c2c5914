"""What a program's claim is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, fetch
from agent.domain.coverage import StoredApproval
from agent.domain.request import RequestStatus
from agent.store import consent_terms
from agent.store.rows import row_as


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramApproval(StoredApproval):
    """Of a program's request, given or not; read without a lock: what was decided never changes."""

    call_id: UUID
    policy: Mapping[str, Any]
    status: RequestStatus
    lapsed: bool
    paused: bool
    session: str | None
    action: bytes | None
    erased: bool
    settled_as: str | None
    """The last attempt was."""
    voided: bool


async def find(connection: Connection, request_id: UUID) -> ProgramApproval | None:
    """Return what a claim of this program's request is judged by; None if no program asked it."""
    found = await fetch(connection, _APPROVAL, id=request_id)
    return row_as(ProgramApproval, found[0], terms_stand=consent_terms.stand(found[0])) if found else None


async def find_successor(connection: Connection, request_id: UUID) -> UUID | None:
    """The request that asks again what the void one asked."""
    found: UUID | None = (await connection.execute(_SUCCESSOR, {"id": request_id})).scalar_one_or_none()
    return found


# What was attempted of the call before it became void counts for no later approval.
_APPROVAL = text("""
SELECT r.id AS request_id, r.call_id, c.session, r.status::text AS status, r.approvers, r.excluded,
       r.approvals_required, r.expires_at, r.requester_team_id, r.requester_user_id,
       (SELECT detail ->> 'terms' FROM audit_event
        WHERE subject = 'request:' || r.id AND event IN ('request.opened', 'request.edited', 'request.escalated')
        ORDER BY seq DESC LIMIT 1) AS terms_recorded,
       c.lapsed_at IS NOT NULL OR coalesce(c.lapse_at <= clock_timestamp(), false) AS lapsed,
       d.digest AS digest_decided,
       (SELECT decode(detail ->> 'digest', 'hex') FROM audit_event
        WHERE subject = 'request:' || r.id AND event = 'request.decided') AS digest_recorded,
       v.action, v.erased_at IS NOT NULL AS erased,
       coalesce(d.revision > 1, false) AS edited, r.escalated_at IS NOT NULL AS escalated,
       coalesce(extract(epoch FROM d.decided_at - r.created_at)::float, 0) AS waited,
       coalesce(extract(epoch FROM clock_timestamp() - d.decided_at)::float, 0) AS age,
       NULL AS signature_decided, NULL AS asked_version, NULL AS executor_asked, s.verdict::text AS settled_as,
       r.voided_at IS NOT NULL AS voided, v.facts, v.facts_source, rule.content AS policy,
       extract(epoch FROM clock_timestamp() - v.created_at)::float AS facts_age,
       (SELECT count(*) FROM execution WHERE request_id = r.id) AS attempts,
       EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', r.agent)) AS paused
FROM approval_request AS r JOIN tool_call AS c ON c.id = r.call_id
JOIN rule ON rule.digest = r.rule_digest
LEFT JOIN decision AS d ON d.request_id = r.id
LEFT JOIN request_revision AS v ON v.request_id = r.id AND v.n = d.revision
LEFT JOIN LATERAL (SELECT id FROM execution WHERE request_id = r.id ORDER BY attempt DESC LIMIT 1) AS e ON true
LEFT JOIN settlement AS s ON s.execution_id = e.id
WHERE r.id = :id AND r.source = 'api'
""")
_SUCCESSOR = text("""
SELECT now.id FROM approval_request AS void JOIN tool_call AS c ON c.id = void.call_id
JOIN approval_request AS now ON now.call_id = c.id AND now.ask_no = c.ask_no AND now.id <> void.id
WHERE void.id = :id
""")

"""Executions in doubt, locked and read to be settled."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, query
from agent.domain.call_answers import EndedCall
from agent.domain.people import Exclusion
from agent.store import consent_terms, exclusions
from agent.store.executions import ended_call
from agent.store.outbox import Destination
from agent.store.rows import row_as
from signoff.values import Person


@dataclass(frozen=True, slots=True)
class Doubt:
    """``open``: still in doubt."""

    execution_id: UUID
    open: bool
    subject: str
    agent: str
    run_id: UUID | None
    run_thread: tuple[str, str] | None
    call: EndedCall
    request_id: UUID | None
    destination: Destination | None
    requester: Person | None
    approvers: tuple[str, ...]
    excluded: tuple[Exclusion, ...]
    terms_stand: bool
    """The terms of consent are those of the audit log."""
    quorum: int
    """For a retry."""
    retry_voters: tuple[Person, ...]

    @property
    def asked(self) -> bool:
        return self.request_id is not None


async def lock(connection: Connection, execution_id: UUID) -> Doubt | None:
    """Also locks the call; its run, if there is one, must be locked."""
    *_, found = await query(connection, _TAKE_CALL, _TAKE_EXECUTION, _DOUBT, id=execution_id)
    if not found:
        return None
    row = found[0]
    return row_as(
        Doubt,
        row,
        execution_id=row.id,
        run_thread=(row.run_channel_id, row.thread_ts) if row.run_channel_id and row.thread_ts else None,
        call=ended_call(row),
        excluded=exclusions.from_json(row.excluded or ()),
        terms_stand=consent_terms.stand(row),
        retry_voters=tuple(Person(team, user) for team, user in row.retry_voters),
    )


_TAKE_CALL = text("""
SELECT 1 FROM tool_call WHERE id = (SELECT call_id FROM execution WHERE id = :id) FOR NO KEY UPDATE
""")
_TAKE_EXECUTION = text("SELECT 1 FROM execution WHERE id = :id FOR NO KEY UPDATE")
_DOUBT = text("""
SELECT e.id, e.status = 'in_doubt' AND c.state = 'in_doubt'
             AND NOT EXISTS (SELECT 1 FROM settlement WHERE execution_id = e.id) AS open,
       coalesce('request:' || r.id, 'run:' || c.run_id) AS subject,
       c.id AS call_id, c.agent, c.tool, c.raw_arguments, c.blocking, c.repeats,
       c.run_id, a.channel_id AS run_channel_id, a.thread_ts,
       r.id AS request_id, r.team_id, r.channel_id, r.approvers, r.excluded, r.approvals_required,
       r.expires_at,
       (SELECT detail ->> 'terms' FROM audit_event
        WHERE subject = 'request:' || r.id AND event IN ('request.opened', 'request.edited', 'request.escalated')
        ORDER BY seq DESC LIMIT 1) AS terms_recorded,
       coalesce(r.approvals_required, 1) AS quorum,
       (SELECT coalesce(json_agg(json_build_array(team_id, user_id) ORDER BY created_at), '[]'::json)
        FROM retry_vote WHERE execution_id = e.id) AS retry_voters,
       CASE WHEN v.editor_user_id IS NOT NULL THEN v.action END AS edited_action,
       (SELECT b.action FROM approval_request AS o JOIN request_revision AS b ON b.request_id = o.id AND b.n = 1
        WHERE o.call_id = c.id AND o.ask_no = 1) AS proposed_action,
       (SELECT json_agg(b.reason ORDER BY b.id) FROM vote AS b
        WHERE b.request_id = r.id AND b.revision = r.revision AND b.superseded_by IS NULL
          AND b.verdict = 'approve' AND btrim(b.reason) <> '') AS notes,
       coalesce(r.requester_team_id, a.requester_team_id) AS requester_team_id,
       coalesce(r.requester_user_id, a.requester_user_id) AS requester_user_id
FROM execution AS e JOIN tool_call AS c ON c.id = e.call_id LEFT JOIN agent_run AS a ON a.id = c.run_id
LEFT JOIN approval_request AS r ON r.id = e.request_id
LEFT JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
WHERE e.id = :id
""")

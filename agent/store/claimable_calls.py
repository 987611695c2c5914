"""What a worker reads of a call that it may claim without a look: with its decision, or straight after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.domain.coverage import StoredApproval
from agent.domain.limits import Caller
from agent.store.rows import person, row_as
from signoff.values import Person


@dataclass(frozen=True, slots=True)
class TopRun:
    """A run without a parent, as limits and grants see the caller of its calls."""

    id: UUID
    agent: str
    requester: Person | None
    principal: str

    @property
    def root_id(self) -> UUID:
        return self.id

    @property
    def caller(self) -> Caller:
        return Caller.of_principal(self.principal, self.agent, self.requester)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimableCall(StoredApproval):
    """A call that people are asked about or have approved: not paused, edited, repeated or prepared.

    Its vote, or the claim after it, compares the terms of consent and the digests.
    """

    digest_decided: bytes
    id: UUID
    run: TopRun
    tool: str
    request_id: UUID
    action: bytes
    """Canonical: pending or approved."""
    policy_epoch: int
    """In force until COMMIT."""

    @property
    def run_id(self) -> UUID:
        return self.run.id


def from_row(row: Row[Any]) -> ClaimableCall:
    """Read a row of ``READ``."""
    run = TopRun(row.run_id, row.agent, person(row.requester_team_id, row.requester_user_id), row.principal)
    return row_as(ClaimableCall, row, run=run)


# ARRAY(…) keeps the plan, as in `runs.READ`. OFFSET 0 keeps PostgreSQL from joining whole tables.
READ = text("""
SELECT each.* FROM unnest(ARRAY(SELECT unnest(CAST(:claims AS uuid[])))) AS asked (id)
JOIN LATERAL (
    SELECT c.id, c.run_id, a.agent, a.principal, a.requester_team_id, a.requester_user_id, c.tool,
           r.id AS request_id, v.action, v.digest AS digest_decided, v.digest AS digest_recorded, true AS terms_stand,
           v.signature_digest AS signature_decided, c.executor::text AS executor_asked,
           v.facts, v.facts_source, 0.0::float AS facts_age, rule.content AS policy, r.agent_version AS asked_version,
           false AS edited, r.escalated_at IS NOT NULL AS escalated,
           coalesce(extract(epoch FROM clock_timestamp() - r.decided_at), 0)::float AS age,
           extract(epoch FROM coalesce(r.decided_at, clock_timestamp()) - r.created_at)::float AS waited,
           (SELECT coalesce(max(attempt), 0) FROM execution WHERE call_id = c.id) AS attempts,
           coalesce((SELECT max(epoch) FROM policy), 0) AS policy_epoch
    FROM approval_request AS r
    JOIN tool_call AS c ON c.id = r.call_id AND c.ask_no = r.ask_no AND c.executor = 'here'
    JOIN agent_run AS a ON a.id = c.run_id
    JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
    JOIN rule ON rule.digest = r.rule_digest
    WHERE r.id = asked.id AND v.editor_user_id IS NULL
      AND ((r.status = 'waiting' AND c.state = 'asked') OR (r.status = 'approved' AND c.state = 'ready'))
      AND c.held IS NULL AND c.repeats IS NULL AND (c.retry_at IS NULL OR c.retry_at <= clock_timestamp())
      AND a.parent_run_id IS NULL AND a.status NOT IN ('denied', 'failed', 'cancelled')
      AND NOT EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', a.agent) OR scope = ANY (a.ancestor_agents)) OFFSET 0
) AS each ON true
""")

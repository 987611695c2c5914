"""Open calls of runs: as a new version of the code would find them, and as programs may claim them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection
from agent.domain.coverage import StoredApproval
from agent.store.rows import row_as
from signoff.values import Person

PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCall(StoredApproval):
    """An asked or ready call, and its approval, given or still to be given; ``action``: canonical bytes."""

    id: UUID
    run_id: UUID
    agent: str
    tool: str
    state: str  # "asked" or "ready"
    action: bytes
    request_id: UUID | None
    description: str
    requester: Person | None


async def open_calls(connection: Connection) -> AsyncIterator[OpenCall]:
    """Pages of calls, oldest first."""
    after = UUID(int=0)
    while rows := (await connection.execute(_CALLS, {"after": after, "limit": PAGE})).all():
        for row in rows:
            yield row_as(OpenCall, row, description=row.description or "")
        after = rows[-1].id


@dataclass(frozen=True, slots=True)
class ApprovedVersion:
    """A running run that waits for nobody, and its agent's version at the last approval."""

    run_id: UUID
    agent: str
    agent_version: str


async def approved_versions(
    connection: Connection, agents: Sequence[str], resumed: str
) -> list[ApprovedVersion]:
    """Runs, oldest first; without those resumed since (``resumed`` in the transcript)."""
    rows = (await connection.execute(_APPROVED, {"agents": list(agents), "resumed": resumed})).all()
    return [ApprovedVersion(row.id, row.agent, row.agent_version) for row in rows]


async def runs_of_others(connection: Connection, agents: Sequence[str]) -> list[tuple[str, UUID]]:
    """Running or parked runs: (agent, run)."""
    rows = (await connection.execute(_OF_OTHERS, {"agents": list(agents)})).all()
    return [(row.agent, row.id) for row in rows]


_CALLS = text("""
SELECT c.id, c.run_id, a.agent, r.agent_version AS asked_version, c.tool, c.state::text AS state,
       coalesce(v.action, c.action) AS action, v.signature_digest AS signature_decided,
       c.executor::text AS executor_asked, v.facts, v.facts_source,
       0.0::float AS facts_age, r.id AS request_id, v.description,
       CASE WHEN r.id IS NOT NULL THEN coalesce(rule.content, '{}') END AS policy,
       a.requester_team_id, a.requester_user_id,
       coalesce(d.digest, v.digest) AS digest_decided, coalesce(d.digest, v.digest) AS digest_recorded,
       true AS terms_stand,
       coalesce(v.n > 1, false) AS edited, r.escalated_at IS NOT NULL AS escalated,
       coalesce(extract(epoch FROM d.decided_at - r.created_at)::float, 0) AS waited,
       coalesce(extract(epoch FROM clock_timestamp() - d.decided_at)::float, 0) AS age,
       (SELECT count(*) FROM execution WHERE call_id = c.id) AS attempts
FROM tool_call AS c JOIN agent_run AS a ON a.id = c.run_id
LEFT JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
LEFT JOIN rule ON rule.digest = r.rule_digest
LEFT JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
LEFT JOIN decision AS d ON d.request_id = r.id
WHERE c.state IN ('asked', 'ready') AND c.id > :after ORDER BY c.id LIMIT :limit
""")
_APPROVED = text("""
SELECT a.id, a.agent, r.agent_version FROM agent_run AS a
JOIN LATERAL (SELECT agent_version, decided_at FROM approval_request
              WHERE run_id = a.id AND status = 'approved' ORDER BY decided_at DESC LIMIT 1) AS r ON true
WHERE a.status IN ('working', 'pending_approval') AND a.agent = ANY(CAST(:agents AS text[]))
  AND NOT EXISTS (SELECT 1 FROM tool_call AS c WHERE c.run_id = a.id AND c.state IN ('asked', 'ready'))
  AND NOT EXISTS (SELECT 1 FROM run_message AS m
                  WHERE m.run_id = a.id AND m.role = 'user' AND m.text = :resumed AND m.created_at > r.decided_at)
ORDER BY a.id
""")
# From agent to agent through the index: served agents may have very many runs.
_OF_OTHERS = text("""
WITH RECURSIVE each AS (
    SELECT min(agent) AS agent FROM agent_run
    UNION ALL SELECT (SELECT min(a.agent) FROM agent_run AS a WHERE a.agent > each.agent)
    FROM each WHERE each.agent IS NOT NULL
)
SELECT each.agent, at_work.id FROM each CROSS JOIN LATERAL (
    SELECT id FROM agent_run WHERE agent = each.agent AND status IN ('working', 'pending_approval')
    UNION SELECT run_id FROM tool_call
    WHERE run_id IS NOT NULL AND agent = each.agent AND state IN ('asked', 'ready', 'delegated')) AS at_work
WHERE each.agent <> ALL(CAST(:agents AS text[])) ORDER BY each.agent, at_work.id
""")


@dataclass(frozen=True, slots=True)
class HandedOutCall:
    """A call of a run that a program may claim until ``lapse_at``."""

    id: UUID
    run_id: UUID
    agent: str
    tool: str
    request_id: UUID | None
    """``None``: policy lets it run."""
    description: str | None
    """The request's, masked."""
    created_at: datetime
    lapse_at: datetime


async def handed_out(
    connection: Connection, tools: Sequence[tuple[str, str]], key: str, limit: int
) -> list[HandedOutCall]:
    """``tools``: (agent, tool) that the key may execute."""
    given = {
        "agents": [agent for agent, _ in tools],
        "tools": [tool for _, tool in tools],
        "key": key,
        "limit": limit,
    }
    return [row_as(HandedOutCall, row) for row in await connection.execute(_HANDED_OUT, given)]


_HANDED_OUT = text("""
SELECT c.id, c.run_id, c.agent, c.tool, r.id AS request_id, v.description, c.created_at, c.lapse_at
FROM unnest(CAST(:agents AS text[]), CAST(:tools AS text[])) AS of (agent, tool)
JOIN tool_call AS c ON c.executor = 'program' AND c.run_id IS NOT NULL AND c.state = 'ready'
                   AND c.agent = of.agent AND c.tool = of.tool AND coalesce(c.executor_key, :key) = :key
JOIN agent_run AS a ON a.id = c.run_id
LEFT JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
LEFT JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
WHERE c.lapse_at > (SELECT clock_timestamp())
  AND NOT EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', a.agent) OR scope = ANY (a.ancestor_agents))
ORDER BY c.created_at LIMIT :limit
""")

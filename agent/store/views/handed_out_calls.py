"""Calls of runs that programs may claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection
from agent.store.rows import row_as


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

"""Time waited for people or slept does not count as work."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection


async def seconds_waited(connection: Connection, run_id: UUID, since: datetime) -> float:
    """Descendants' waits and sleeps count, too."""
    found: float = (await connection.execute(_WAITED, {"run": run_id, "since": since})).scalar_one()
    return found


_WAITED = text("""
WITH RECURSIVE family AS (
    SELECT id FROM agent_run WHERE id = :run
    UNION ALL SELECT r.id FROM agent_run AS r JOIN family AS f ON r.parent_run_id = f.id
), spell AS (
    SELECT q.created_at AS began, q.decided_at AS ended
    FROM approval_request AS q JOIN family AS f ON q.run_id = f.id
    UNION ALL
    SELECT e.finished_at, s.created_at FROM family AS f JOIN tool_call AS c ON c.run_id = f.id
    JOIN execution AS e ON e.call_id = c.id AND e.status = 'in_doubt'
    LEFT JOIN settlement AS s ON s.execution_id = e.id
    UNION ALL
    SELECT c.created_at, c.answered_at FROM tool_call AS c JOIN family AS f ON c.run_id = f.id
    WHERE c.tool = 'sleep' AND c.retry_at IS NOT NULL
)
SELECT coalesce(sum(extract(epoch FROM upper(w) - lower(w))), 0)::float FROM unnest((
    SELECT range_agg(tstzrange(greatest(began, :since), coalesce(ended, clock_timestamp()))) FROM spell
    WHERE coalesce(ended, clock_timestamp()) > greatest(began, :since))) AS w
""")

"""What there is to do now: the truth behind every lost wake-up."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import text

from agent.database.transaction import Connection, fetch
from agent.database.wakeups import Wakeup, WakeupKind
from agent.domain.outbound import MAIL

PAGE = 100
"""Runs, and calls, of one agent that one look finds: a flood of one agent hides nothing of another."""


async def find(connection: Connection, agents: Collection[str], page: int = PAGE) -> list[Wakeup]:
    """The oldest calls and runs of each of these agents with something to do, and whom something is to be told."""
    rows = await fetch(connection, _DUE, agents=list(agents), page=page, mail=MAIL)
    return [Wakeup(WakeupKind(row.kind), row.target or row.id, row.agent, first=row.first) for row in rows]


_DUE = text("""
SELECT 'call' AS kind, due.id, NULL AS target, served.agent, due.first
FROM unnest(CAST(:agents AS text[])) AS served (agent) CROSS JOIN LATERAL (
    SELECT c.id, c.state = 'ready' AS first FROM tool_call AS c JOIN agent_run AS a ON a.id = c.run_id
    WHERE (c.state IN ('new', 'ready', 'refused') OR (c.state = 'asked' AND c.announced_at IS NULL))
      AND a.agent = served.agent
      AND (c.state <> 'ready'
           OR NOT EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', a.agent) OR scope = ANY (a.ancestor_agents)))
    ORDER BY c.created_at LIMIT :page) AS due
UNION ALL
SELECT 'run', due.id, NULL, served.agent, false
FROM unnest(CAST(:agents AS text[])) AS served (agent) CROSS JOIN LATERAL (
    SELECT r.id FROM agent_run AS r
    WHERE r.inputs > r.heard AND r.status IN ('working', 'pending_approval') AND r.agent = served.agent
      AND (r.lease_until IS NULL OR r.lease_until <= clock_timestamp())
      AND (r.look_at IS NULL OR r.look_at <= clock_timestamp())
      AND NOT EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', r.agent) OR scope = ANY (r.ancestor_agents))
    ORDER BY r.created_at LIMIT :page) AS due
UNION ALL
SELECT DISTINCT 'notices', CAST(NULL AS uuid), coalesce(webhook_id::text, :mail), NULL, false FROM notice
WHERE state = 'pending' AND next_at <= (SELECT clock_timestamp())
""")

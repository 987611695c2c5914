"""Find due work by polling: wake-ups may be lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import text

from agent.database.transaction import Connection, fetch
from agent.database.wakeups import Wakeup, WakeupKind
from agent.domain.outbound import MAIL

PAGE = 100
"""Rows per agent and lane, so that one agent's flood hides nobody's work."""


class Lane(StrEnum):
    """A lane of due work, which is polled page by page and has a time of its own."""

    READY = "ready"  # may run
    OTHER = "other"
    RUNS = "runs"
    NOTICES = "notices"
    POLICY = "policy"


@dataclass(frozen=True, slots=True)
class Due:
    """A piece of due work that polling found: whom to wake, its lane, and since when it is due."""

    wakeup: Wakeup
    lane: Lane
    at: datetime


async def find(
    connection: Connection,
    agents: Sequence[str],
    after: Mapping[Lane, Sequence[datetime]],
    page: int = PAGE,
    *,
    policy_epoch: int = 0,
) -> list[Due]:
    """The oldest ``page`` rows per agent and lane after the lane's time; runnable calls come first.

    A policy in force other than ``policy_epoch`` is work, too.
    """
    rows = await fetch(
        connection,
        _DUE,
        agents=list(agents),
        ready=list(after[Lane.READY]),
        other=list(after[Lane.OTHER]),
        runs=list(after[Lane.RUNS]),
        page=page,
        mail=MAIL,
        policy_epoch=policy_epoch,
    )
    return [
        Due(
            Wakeup(WakeupKind(row.kind), row.target or row.id, row.agent, row.lane == Lane.READY, row.last),
            Lane(row.lane),
            row.at,
        )
        for row in rows
    ]


async def find_unserved(
    connection: Connection, agents: Sequence[str], seconds: float, page: int = PAGE
) -> list[Wakeup]:
    """Runnable runs of other agents, idle for ``seconds``."""
    rows = await fetch(connection, _UNSERVED, agents=list(agents), seconds=seconds, page=page)
    return [Wakeup.run(row.id, row.agent) for row in rows]


# Each lane is read along its index until the page is full, and skipped for a paused agent. With a join instead of the
# sub-select, PostgreSQL reads all runs once many calls are ready. Notices: only the earliest per target, because only
# one index has the order by both columns.
_DUE = text("""
WITH served AS MATERIALIZED (
    SELECT s.*, EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', s.agent)) AS paused
    FROM unnest(CAST(:agents AS text[]), CAST(:ready AS timestamptz[]), CAST(:other AS timestamptz[]),
                CAST(:runs AS timestamptz[])) AS s (agent, ready, other, runs)
)
SELECT 'call' AS kind, 'ready' AS lane, due.id, NULL AS target, s.agent, due.at, false AS last
FROM served AS s CROSS JOIN LATERAL (
    SELECT c.id, coalesce(c.retry_at, c.created_at) AS at FROM tool_call AS c
    WHERE NOT s.paused AND c.executor = 'here' AND c.run_id IS NOT NULL AND c.state = 'ready' AND c.agent = s.agent
      AND coalesce(c.retry_at, c.created_at) > s.ready
      AND coalesce(c.retry_at, c.created_at) <= (SELECT clock_timestamp())
      AND NOT (SELECT EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', a.agent) OR scope = ANY (a.ancestor_agents))
               FROM agent_run AS a WHERE a.id = c.run_id)
    ORDER BY coalesce(c.retry_at, c.created_at) LIMIT :page) AS due
UNION ALL
SELECT 'call', 'other', due.id, NULL, s.agent, due.at, due.last
FROM served AS s CROSS JOIN LATERAL (
    SELECT c.id, c.created_at AS at, coalesce(c.answer_kind = 'expired', false) AS last FROM tool_call AS c
    WHERE c.run_id IS NOT NULL AND (c.state IN ('new', 'refused') OR (c.state = 'asked' AND c.announced_at IS NULL))
      AND c.agent = s.agent AND c.created_at > s.other
    ORDER BY c.created_at LIMIT :page) AS due
UNION ALL
SELECT 'run', 'runs', due.id, NULL, s.agent, due.at, false
FROM served AS s CROSS JOIN LATERAL (
    SELECT r.id, coalesce(r.look_at, r.created_at) AS at FROM agent_run AS r
    WHERE NOT s.paused AND r.inputs > r.heard AND r.status IN ('working', 'pending_approval') AND r.agent = s.agent
      AND coalesce(r.look_at, r.created_at) > s.runs
      AND coalesce(r.look_at, r.created_at) <= (SELECT clock_timestamp())
      AND (r.lease_until IS NULL OR r.lease_until <= (SELECT clock_timestamp()))
      AND NOT EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', r.agent) OR scope = ANY (r.ancestor_agents))
    ORDER BY coalesce(r.look_at, r.created_at) LIMIT :page) AS due
UNION ALL
SELECT 'notices', 'notices', CAST(NULL AS uuid), w.id::text, NULL, (SELECT clock_timestamp()), false
FROM webhook AS w
WHERE (SELECT n.webhook_id = w.id AND n.next_at <= (SELECT clock_timestamp()) FROM notice AS n
       WHERE n.state = 'pending' AND (n.webhook_id, n.next_at) >= (w.id, CAST('-infinity' AS timestamptz))
       ORDER BY n.webhook_id, n.next_at LIMIT 1)
UNION ALL
SELECT 'notices', 'notices', CAST(NULL AS uuid), :mail, NULL, (SELECT clock_timestamp()), false
WHERE (SELECT n.next_at FROM notice AS n WHERE n.state = 'pending' AND n.webhook_id IS NULL
       ORDER BY n.webhook_id, n.next_at LIMIT 1) <= (SELECT clock_timestamp())
UNION ALL
SELECT 'policy', 'policy', CAST(NULL AS uuid), 'policy', NULL, (SELECT clock_timestamp()), false
WHERE coalesce((SELECT max(epoch) FROM policy), 0) <> :policy_epoch
""")
_UNSERVED = text("""
SELECT r.id, r.agent FROM agent_run AS r
WHERE r.inputs > r.heard AND r.status IN ('working', 'pending_approval') AND r.agent <> ALL(CAST(:agents AS text[]))
  AND greatest(r.look_at, r.updated_at) <= (SELECT clock_timestamp()) - make_interval(secs => :seconds)
  AND (r.lease_until IS NULL OR r.lease_until <= (SELECT clock_timestamp()))
  AND NOT EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', r.agent) OR scope = ANY (r.ancestor_agents))
ORDER BY r.updated_at LIMIT :page
""")

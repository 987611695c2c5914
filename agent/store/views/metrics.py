"""Bounded counts of waiting work, through indexes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import text

from agent.database.transaction import Connection
from agent.store import overdue
from agent.store.rows import row_as
from agent.store.undelivered import count_dead

MOST = 10_000
"""Counted exactly; beyond it, the planner's estimate."""


@dataclass(frozen=True, slots=True)
class ServiceCounts:
    """Counts (up to ``MOST``) and ages in seconds (0: none)."""

    waiting: int
    overdue: int
    oldest_waiting: float
    undelivered_cards: int
    undelivered_lines: int
    oldest_undelivered: float
    dead_messages: int
    channels_in_trouble: int
    pending_notices: int
    oldest_notice: float
    dead_notices: int
    in_doubt: int
    live_grants: int
    runs: Mapping[str, int]
    queues: Mapping[str, int]
    failing_sweeps: Mapping[str, str] = field(default_factory=dict)
    """Each sweep's error, by its name."""


async def service_counts(connection: Connection) -> ServiceCounts:
    """Return the counts and ages of waiting work that the service's metrics report."""
    waits = (await connection.execute(_WAITS, {"most": MOST})).one()
    delivery_counts = (await connection.execute(_DELIVERY_COUNTS, {"most": MOST})).one()
    works = (await connection.execute(_WORKS, {"most": MOST})).all()
    return ServiceCounts(
        waiting=waits.waiting if waits.waiting < MOST else max(MOST, int(waits.estimate)),
        overdue=waits.overdue,
        oldest_waiting=float(waits.oldest),
        undelivered_cards=delivery_counts.cards,
        undelivered_lines=delivery_counts.lines,
        oldest_undelivered=float(delivery_counts.oldest),
        dead_messages=await count_dead(connection, MOST),
        channels_in_trouble=delivery_counts.trouble,
        pending_notices=delivery_counts.notices,
        oldest_notice=float(delivery_counts.oldest_notice),
        dead_notices=delivery_counts.dead_notices,
        in_doubt=sum(row.number for row in works if row.what == "doubt"),
        live_grants=delivery_counts.live_grants,
        runs={row.name: row.number for row in works if row.what == "run"},
        queues={row.name: row.number for row in works if row.what == "queue"},
        failing_sweeps=await overdue.failing(connection),
    )


# One index step per team.
_WAITS = text("""
WITH RECURSIVE team AS (
    (SELECT team_id, created_at FROM approval_request WHERE status = 'waiting' ORDER BY team_id, created_at LIMIT 1)
    UNION ALL
    SELECT following.team_id, following.created_at FROM team CROSS JOIN LATERAL (
        SELECT r.team_id, r.created_at FROM approval_request AS r
        WHERE r.status = 'waiting' AND r.team_id > team.team_id ORDER BY r.team_id, r.created_at LIMIT 1) AS following
)
SELECT (SELECT count(*) FROM (SELECT FROM approval_request WHERE status = 'waiting' LIMIT :most) AS w) AS waiting,
       (SELECT reltuples FROM pg_class WHERE oid = to_regclass('ix_approval_request_due')) AS estimate,
       (SELECT count(*) FROM (SELECT FROM approval_request
                              WHERE status = 'waiting' AND expires_at < (SELECT clock_timestamp()) LIMIT :most) AS o)
       AS overdue,
       coalesce((SELECT greatest(0, extract(epoch FROM clock_timestamp() - min(created_at))) FROM team), 0) AS oldest
""")
_DELIVERY_COUNTS = text("""
WITH pending AS MATERIALIZED (
    SELECT kind, created_at FROM delivery WHERE state = 'pending' LIMIT :most
), due AS MATERIALIZED (
    SELECT created_at FROM notice WHERE state = 'pending' LIMIT :most
)
SELECT (SELECT count(*) FROM pending WHERE kind IN ('card', 'digest')) AS cards,
       (SELECT count(*) FROM pending WHERE kind NOT IN ('card', 'digest')) AS lines,
       coalesce((SELECT extract(epoch FROM clock_timestamp() - min(created_at)) FROM pending), 0) AS oldest,
       (SELECT count(*) FROM outlet WHERE trouble IS NOT NULL) AS trouble,
       (SELECT count(*) FROM due) AS notices,
       coalesce((SELECT extract(epoch FROM clock_timestamp() - min(created_at)) FROM due), 0) AS oldest_notice,
       (SELECT count(*) FROM (SELECT FROM notice WHERE state = 'dead' LIMIT :most) AS d) AS dead_notices,
       (SELECT count(*) FROM (
            SELECT FROM approval_grant AS g JOIN approval_request AS r ON r.id = g.request_id AND r.status = 'approved'
            WHERE g.ended_at IS NULL AND g.until > (SELECT clock_timestamp()) AND g.uses < g.max_uses
            LIMIT :most) AS l) AS live_grants
""")
_WORKS = text("""
SELECT 'run' AS what, status::text AS name, count(*) AS number FROM (
    SELECT status FROM agent_run WHERE status IN ('working', 'pending_approval') LIMIT :most) AS r GROUP BY status
UNION ALL
SELECT 'queue', 'runs', count(*) FROM (
    SELECT FROM agent_run WHERE inputs > heard AND status IN ('working', 'pending_approval')
    AND (lease_until IS NULL OR lease_until <= (SELECT clock_timestamp()))
    AND coalesce(look_at, created_at) <= (SELECT clock_timestamp()) LIMIT :most) AS r
UNION ALL
SELECT 'queue', 'calls', count(*) FROM (
    (SELECT FROM tool_call
     WHERE executor = 'here' AND state = 'ready' AND (retry_at IS NULL OR retry_at <= clock_timestamp())
     LIMIT :most) UNION ALL
    (SELECT FROM tool_call
     WHERE run_id IS NOT NULL AND (state IN ('new', 'refused') OR (state = 'asked' AND announced_at IS NULL))
     LIMIT :most)) AS c
UNION ALL
SELECT 'doubt', 'calls', count(*) FROM (SELECT FROM tool_call WHERE state = 'in_doubt' LIMIT :most) AS d
UNION ALL
SELECT 'queue', 'notices', count(*) FROM (
    SELECT FROM notice WHERE state = 'pending' AND next_at <= (SELECT clock_timestamp()) LIMIT :most) AS n
""")


@dataclass(frozen=True, slots=True)
class Backlog:
    """Counts up to 1,000; ``latest``: time of the last audit event."""

    calls: int
    outdated: int
    """People are asked again: the approval is too old."""
    approvals: int
    """Claimable by programs."""
    attempts: int
    runs: int
    """Due model turns."""
    messages: int
    """For Slack, webhooks and mail."""
    paused: bool
    latest: datetime | None
    now: datetime


async def backlog(connection: Connection) -> Backlog:
    """Return what workers would begin with now; each count stops at 1,000, or 2,000 for messages."""
    return row_as(Backlog, (await connection.execute(_BACKLOG)).one())


_BACKLOG = text("""
SELECT (SELECT count(*) FROM (SELECT FROM tool_call WHERE state = 'ready' AND executor = 'here'
                                AND (retry_at IS NULL OR retry_at <= clock_timestamp()) LIMIT 1000) AS ready) AS calls,
       (SELECT count(*) FROM (SELECT FROM tool_call AS call
                              JOIN approval_request AS request
                                ON request.call_id = call.id AND request.ask_no = call.ask_no
                              JOIN rule ON rule.digest = request.rule_digest
                              WHERE call.state = 'ready' AND call.executor = 'here' AND request.status = 'approved'
                                AND request.decided_at + make_interval(
                                    secs => (rule.content ->> 'execute_within')::float) <= clock_timestamp()
                                AND NOT EXISTS (SELECT FROM execution WHERE execution.call_id = call.id)
                              LIMIT 1000) AS late) AS outdated,
       (SELECT count(*) FROM (SELECT FROM tool_call WHERE state = 'ready' AND executor = 'program'
                              LIMIT 1000) AS claimable) AS approvals,
       (SELECT count(*) FROM (SELECT FROM execution WHERE status = 'claimed' LIMIT 1000) AS begun) AS attempts,
       (SELECT count(*) FROM (SELECT FROM agent_run
                              WHERE inputs > heard AND status IN ('working', 'pending_approval')
                              LIMIT 1000) AS runnable) AS runs,
       (SELECT count(*) FROM (SELECT FROM delivery WHERE state = 'pending' LIMIT 1000) AS untold)
         + (SELECT count(*) FROM (SELECT FROM notice WHERE state = 'pending' LIMIT 1000) AS unsent) AS messages,
       EXISTS (SELECT FROM pause WHERE scope = '*') AS paused,
       (SELECT max(at) FROM audit_event) AS latest,
       clock_timestamp() AS now
""")

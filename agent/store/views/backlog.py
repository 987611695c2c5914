"""What begins when workers start: after a restore, perhaps work already done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text

from agent.database.transaction import Connection
from agent.store.rows import row_as


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
    return row_as(Backlog, (await connection.execute(_BACKLOG)).one())


_BACKLOG = text("""
SELECT (SELECT count(*) FROM (SELECT FROM tool_call WHERE state = 'ready' AND executor = 'here'
                                AND (retry_at IS NULL OR retry_at <= clock_timestamp()) LIMIT 1000) AS ready) AS calls,
       (SELECT count(*) FROM (SELECT FROM tool_call AS call
                              JOIN approval_request AS request
                                ON request.call_id = call.id AND request.ask_no = call.ask_no
                              WHERE call.state = 'ready' AND call.executor = 'here' AND request.status = 'approved'
                                AND request.decided_at + make_interval(
                                    secs => (request.policy ->> 'execute_within')::float) <= clock_timestamp()
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

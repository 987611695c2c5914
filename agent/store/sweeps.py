"""What is runnable although no hint is queued for it: the truth behind every lost wake-up."""

from __future__ import annotations

from sqlalchemy import text

from agent.database import jobs
from agent.database.jobs import Hint
from agent.database.transaction import Connection

LIMIT = 1000
"""Hints that wait per queue before a sweep adds no more; what is left is found by a later one.

Which ones is left to chance: those that nobody here can move (their agent is not served) would otherwise stand in
the way of the rest for ever.
"""


async def runnable(connection: Connection, limit: int = LIMIT) -> list[Hint]:
    """Hints for runs to advance and calls to look at, until ``limit`` wait in each queue."""
    runs = (await connection.execute(_RUNS, await _room(connection, jobs.RUNS, limit))).scalars()
    calls = (await connection.execute(_CALLS, await _room(connection, jobs.CALLS, limit))).scalars()
    return [
        *(jobs.advance_run(run_id) for run_id in runs),
        *(jobs.execute_call(call_id) for call_id in calls),
    ]


async def _room(connection: Connection, queue: str, limit: int) -> dict[str, int]:
    waiting = (await connection.execute(_WAITING, {"queue": queue, "limit": limit})).scalar_one()
    return {"limit": limit - waiting}


_WAITING = text("""
SELECT count(*) FROM (SELECT 1 FROM procrastinate_jobs
                      WHERE status = 'todo' AND queue_name = :queue
                        AND (scheduled_at IS NULL OR scheduled_at <= clock_timestamp()) LIMIT :limit) AS w
""")
_RUNS = text("""
SELECT r.id FROM agent_run AS r
WHERE r.inputs > r.heard AND r.status IN ('working', 'pending_approval')
  AND (r.lease_until IS NULL OR r.lease_until <= clock_timestamp())
  AND (r.look_at IS NULL OR r.look_at <= clock_timestamp())
  AND NOT EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', r.agent) OR scope = ANY (r.ancestor_agents))
  AND NOT EXISTS (SELECT 1 FROM procrastinate_jobs AS j
                  WHERE j.status = 'todo' AND j.task_name = 'advance_run' AND j.args ->> 'run_id' = r.id::text
                    AND (j.scheduled_at IS NULL OR j.scheduled_at <= clock_timestamp()))
ORDER BY random() LIMIT :limit
""")
_CALLS = text("""
SELECT c.id FROM tool_call AS c
WHERE (c.state IN ('new', 'ready', 'refused') OR (c.state = 'asked' AND c.announced_at IS NULL))
  AND c.created_at < clock_timestamp() - interval '1 second'
  AND (c.state <> 'ready' OR NOT EXISTS (
      SELECT 1 FROM agent_run AS a WHERE a.id = c.run_id
      AND EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', a.agent) OR scope = ANY (a.ancestor_agents))))
  AND NOT EXISTS (SELECT 1 FROM procrastinate_jobs AS j
                  WHERE j.status = 'todo' AND j.task_name = 'execute_call' AND j.args ->> 'call_id' = c.id::text)
ORDER BY random() LIMIT :limit
""")

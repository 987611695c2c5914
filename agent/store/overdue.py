"""Due sweeps, and those that keep failing."""

from __future__ import annotations

from sqlalchemy import text

from agent.database.transaction import Connection, fetch

SUBJECT = "sweeps"
"""The chain of the events about failing sweeps."""


async def find(connection: Connection) -> list[str]:
    """Sweeps with work to do, in one statement."""
    [row] = await fetch(connection, _OVERDUE)
    return [sweep for sweep, is_due in row._asdict().items() if is_due]


async def failing(connection: Connection) -> dict[str, str]:
    """Each sweep's error, by its name."""
    rows = await fetch(connection, _FAILING, subject=SUBJECT)
    return dict(rows[0].failing) if rows else {}


# The earliest time is one index step. For EXISTS, PostgreSQL expects a quick hit and reads the whole table when a
# million rows wait and none is due.
_OVERDUE = text("""
SELECT coalesce((SELECT min(expires_at) FROM approval_request WHERE status = 'waiting')
                <= clock_timestamp(), false) AS expire,
       coalesce((SELECT min(remind_next) FROM approval_request WHERE status = 'waiting')
                <= clock_timestamp(), false) AS remind,
       coalesce((SELECT min(lease_until) FROM execution WHERE status = 'claimed')
                <= clock_timestamp(), false) AS rescue,
       coalesce((SELECT min(lapse_at) FROM tool_call WHERE executor = 'program' AND state = 'ready')
                <= clock_timestamp(), false) AS lapse,
       EXISTS (SELECT 1 FROM search_due) AS search,
       coalesce((SELECT min(next_at) FROM schedule) <= clock_timestamp(), false) AS schedules,
       EXISTS (SELECT 1 FROM tool_call AS c
               JOIN agent_run AS a ON a.id = c.run_id AND a.status IN ('denied', 'failed', 'cancelled')
               JOIN agent_run AS r ON r.parent_run_id = c.run_id AND r.parent_call_id = c.id
               WHERE c.state = 'delegated') AS orphans
""")
_FAILING = text("""
SELECT e.detail -> 'failing' AS failing
FROM audit_head AS h JOIN audit_event AS e ON e.subject = h.subject AND e.seq = h.seq
WHERE h.subject = :subject
""")

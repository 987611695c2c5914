from __future__ import annotations

from sqlalchemy import text

from agent.database.transaction import Connection, fetch


async def find(connection: Connection) -> list[str]:
    """Sweeps with work to do, in one statement."""
    [row] = await fetch(connection, _OVERDUE)
    return [sweep for sweep, is_due in row._asdict().items() if is_due]


# The earliest time is one index step. For EXISTS, PostgreSQL expects a quick hit and reads the whole table when a
# million rows wait and none is due.
_OVERDUE = text("""
SELECT coalesce((SELECT min(expires_at) FROM approval_request WHERE status = 'waiting')
                <= clock_timestamp(), false) AS expire,
       coalesce((SELECT min(remind_next) FROM approval_request WHERE status = 'waiting')
                <= clock_timestamp(), false) AS remind,
       coalesce((SELECT min(lease_until) FROM execution WHERE status = 'claimed')
                <= clock_timestamp(), false) AS rescue,
       coalesce((SELECT min(lapse_at) FROM approval_request) <= clock_timestamp(), false) AS lapse,
       EXISTS (SELECT 1 FROM search_due) AS search,
       coalesce((SELECT min(next_at) FROM schedule) <= clock_timestamp(), false) AS schedules,
       EXISTS (SELECT 1 FROM tool_call AS c
               JOIN agent_run AS a ON a.id = c.run_id AND a.status IN ('denied', 'failed', 'cancelled')
               JOIN agent_run AS r ON r.parent_run_id = c.run_id AND r.parent_call_id = c.id
               WHERE c.state = 'delegated') AS orphans
""")

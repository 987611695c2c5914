"""What is past its time, in one statement for all sweeps."""

from __future__ import annotations

from sqlalchemy import text

from agent.database.transaction import Connection, fetch


async def find(connection: Connection) -> list[str]:
    """The sweeps that have something to do now, by the database's clock."""
    [row] = await fetch(connection, _OVERDUE)
    return [sweep for sweep, is_due in row._asdict().items() if is_due]


# The clock as a subquery is read once, and so can bound an index scan.
_OVERDUE = text("""
SELECT EXISTS (SELECT 1 FROM approval_request
               WHERE status = 'waiting' AND expires_at <= (SELECT clock_timestamp())) AS expire,
       EXISTS (SELECT 1 FROM approval_request
               WHERE status = 'waiting' AND remind_next <= (SELECT clock_timestamp())) AS remind,
       EXISTS (SELECT 1 FROM execution
               WHERE status = 'claimed' AND lease_until <= (SELECT clock_timestamp())) AS rescue,
       EXISTS (SELECT 1 FROM approval_request WHERE lapse_at <= (SELECT clock_timestamp())) AS lapse,
       EXISTS (SELECT 1 FROM tool_call AS c
               JOIN agent_run AS a ON a.id = c.run_id AND a.status IN ('denied', 'failed', 'cancelled')
               JOIN agent_run AS r ON r.parent_run_id = c.run_id AND r.parent_call_id = c.id
               WHERE c.state = 'delegated') AS orphans
""")

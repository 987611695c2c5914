"""What a direct message about an outcome says of the thread that it stands for."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, fetch


async def thread_of(
    connection: Connection, run_id: UUID | None, request_id: UUID | None
) -> tuple[str, str] | None:
    """Channel and `ts` of the run's message, or of the card."""
    rows = await fetch(connection, _THREAD, run=run_id, request=request_id)
    return (rows[0].channel_id, rows[0].ts) if rows else None


async def last_rejection(connection: Connection, run_id: UUID) -> str | None:
    """A reviewer's words for the latest rejection since a person wrote to the run."""
    rows = await fetch(connection, _REASON, run=run_id)
    return str(rows[0].reason) if rows else None


_THREAD = text("""
SELECT channel_id, thread_ts AS ts FROM agent_run WHERE id = CAST(:run AS uuid) AND thread_ts IS NOT NULL
UNION ALL
SELECT channel_id, ts FROM card_place
WHERE request_id = CAST(:request AS uuid) AND surface = 'channel' AND ts IS NOT NULL LIMIT 1
""")
_REASON = text("""
SELECT d.reason FROM approval_request AS r JOIN decision AS d ON d.request_id = r.id
WHERE r.run_id = :run AND d.outcome = 'rejected' AND btrim(d.reason) <> ''
  AND d.decided_at > (SELECT max(created_at) FROM run_message WHERE run_id = :run AND role = 'user')
ORDER BY d.decided_at DESC LIMIT 1
""")

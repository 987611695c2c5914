"""Whether anything has happened since somebody last looked."""

from __future__ import annotations

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


async def pulse(connection: AsyncConnection) -> str:
    """A token that is another one whenever a transition has been recorded; read from one end of an index.

    Transactions do not commit in the order of their clocks, so those just before the last one are counted too.
    """
    found: str = (await connection.execute(_PULSE)).scalar_one()
    return found


_PULSE = text("""
SELECT coalesce(latest.at::text, '') || '/' || (
    SELECT count(*) FROM audit_event WHERE at > latest.at - interval '15 seconds')
FROM (SELECT max(at) AS at FROM audit_event) AS latest
""")

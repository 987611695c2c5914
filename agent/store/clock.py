"""The database's clock decides all deadlines."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import text

from agent.database.transaction import Connection


async def now(connection: Connection) -> datetime:
    """Return the database's time at this moment, which moves on within a transaction."""
    now: datetime = (await connection.execute(text("SELECT clock_timestamp()"))).scalar_one()
    return now

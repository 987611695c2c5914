"""The clock of the database."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import text

from agent.database.transaction import Connection


async def now(connection: Connection) -> datetime:
    """The database's time, which decides all deadlines."""
    now: datetime = (await connection.execute(text("SELECT clock_timestamp()"))).scalar_one()
    return now

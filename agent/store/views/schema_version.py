from __future__ import annotations

from sqlalchemy import TextClause, text

from agent.database.transaction import Connection


async def schema_version(connection: Connection) -> tuple[str | None, str | None]:
    """The migration, and the oldest code version that works with it."""
    found = await _fetch_value(connection, "alembic_version", _VERSION)
    return found, await _fetch_value(connection, "works_with", _OLDEST)


async def _fetch_value(connection: Connection, relation: str, query: TextClause) -> str | None:
    if (await connection.execute(_IS_THERE, {"relation": relation})).scalar_one() is None:
        return None
    found: str | None = (await connection.execute(query)).scalar_one_or_none()
    return found


_IS_THERE = text("SELECT to_regclass(:relation)")
_VERSION = text("SELECT version_num FROM alembic_version")
_OLDEST = text("SELECT w.oldest FROM works_with AS w JOIN alembic_version AS a ON a.version_num = w.version")

"""The revision of the schema, and the oldest version of Signoff that it works with."""

from __future__ import annotations

from sqlalchemy import TextClause, text

from agent.database.migrations import SchemaVersion
from agent.database.transaction import Connection


async def schema_version(connection: Connection) -> SchemaVersion:
    """Return the schema's revision, the oldest code that works with it, and whose lineage it is."""
    return SchemaVersion(
        await _fetch_value(connection, "alembic_version", _VERSION),
        await _fetch_value(connection, "works_with", _OLDEST),
        await _fetch_value(connection, "lineage", _LINEAGE),
    )


async def _fetch_value(connection: Connection, relation: str, query: TextClause) -> str | None:
    if (await connection.execute(_IS_THERE, {"relation": relation})).scalar_one() is None:
        return None
    found: str | None = (await connection.execute(query)).scalar_one_or_none()
    return found


_IS_THERE = text("SELECT to_regclass(:relation)")
_VERSION = text("SELECT version_num FROM alembic_version")
_OLDEST = text("SELECT w.oldest FROM works_with AS w JOIN alembic_version AS a ON a.version_num = w.version")
_LINEAGE = text("SELECT marker FROM lineage")

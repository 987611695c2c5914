"""The schema's own version."""

from __future__ import annotations

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


async def schema_version(connection: AsyncConnection) -> str | None:
    """The migration that the schema is at; ``None`` when there is no schema of ours."""
    if (await connection.execute(_IS_THERE)).scalar_one() is None:
        return None
    found: str | None = (await connection.execute(_VERSION)).scalar_one_or_none()
    return found


_IS_THERE = text("SELECT to_regclass('alembic_version')")
_VERSION = text("SELECT version_num FROM alembic_version")

"""The driver's connection below SQLAlchemy's, for what only the driver can do, or does in a fraction of the time."""

from __future__ import annotations

from typing import Any, cast

import psycopg
from sqlalchemy.ext.asyncio import AsyncConnection


def driver_of(connection: AsyncConnection) -> psycopg.AsyncConnection[Any]:
    """The psycopg connection; only valid while the caller holds the SQLAlchemy one."""
    raw = connection.sync_connection.connection.driver_connection  # type: ignore[union-attr]
    return cast("psycopg.AsyncConnection[Any]", raw)

"""The writes of one transaction, gathered and sent together: one round trip however many statements.

A use case reads and locks first, decides, then fills a batch; nothing that it writes depends on what an earlier
write returns. The statements go out in order through the driver's pipeline mode, the hints last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, LiteralString, cast

import psycopg
from sqlalchemy.ext.asyncio import AsyncConnection

from agent import jobs
from agent.jobs import Hint


class Batch:
    """Statements with named parameters (``%(name)s``) and the hints of the facts they write."""

    def __init__(self) -> None:
        self._statements: list[tuple[LiteralString, Mapping[str, Any]]] = []
        self._hints: list[Hint] = []

    def add(self, sql: LiteralString, **parameters: Any) -> None:
        """Append a statement that returns nothing anybody needs."""
        self._statements.append((sql, parameters))

    def hint(self, *hints: Hint) -> None:
        """Defer these jobs with the transaction."""
        self._hints.extend(hints)

    async def send(self, connection: AsyncConnection) -> None:
        """Send everything inside the connection's transaction. Raises the driver's errors."""
        raw = await driver_connection(connection)
        async with raw.pipeline(), raw.cursor() as cursor:
            for sql, parameters in self._statements:
                await cursor.execute(sql, parameters)
            await jobs.defer(raw, self._hints)


async def driver_connection(connection: AsyncConnection) -> psycopg.AsyncConnection[Any]:
    """The psycopg connection below; only valid while the caller holds the SQLAlchemy one, in its transaction."""
    raw = await connection.get_raw_connection()
    return cast("psycopg.AsyncConnection[Any]", raw.driver_connection)

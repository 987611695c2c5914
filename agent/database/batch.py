"""Statements sent together, through the driver's pipeline mode: one round trip however many there are.

A use case reads and locks first, decides, then fills a batch; nothing that it writes depends on what an earlier
write returns. The statements go out in order, the hints last.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, LiteralString
from uuid import UUID

from psycopg import AsyncCursor
from psycopg.rows import namedtuple_row
from sqlalchemy import TextClause
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.ext.asyncio import AsyncConnection

from agent.database import after_commit, jobs
from agent.database.driver import driver_of
from agent.database.jobs import Hint


class Batch:
    """Statements with named parameters (``%(name)s``) and the hints of the facts they write."""

    def __init__(self) -> None:
        self._statements: list[tuple[LiteralString, Mapping[str, Any]]] = []
        self._hints: list[Hint] = []
        self._afterwards: list[Callable[[], object]] = []
        self._ended: dict[UUID, int] = {}

    def add(self, sql: LiteralString, **parameters: Any) -> None:
        """Append a statement that returns nothing anybody needs."""
        self._statements.append((sql, parameters))

    def add_rows(self, sql: LiteralString, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append a statement that reads these rows from ``%(rows)s``, with ``json_to_recordset``.

        One text for all of them costs a fraction of what an array for each column costs to put together. Values
        are those of JSON, and UUIDs, times and bytes; raises TypeError for any other.

        A statement that joins these rows to a table takes ``LIMIT (SELECT %(many)s::int)`` of them, which is all:
        PostgreSQL expects a hundred in any text, and would read a table of thousands from end to end to find one.
        Behind a SELECT the planner does not know the number, and so the plan is kept.
        """
        self.add(sql, rows=json.dumps(rows, default=_spelled_out), many=len(rows))

    def hint(self, *hints: Hint) -> None:
        """Defer these jobs with the transaction."""
        self._hints.extend(hints)

    def afterwards(self, call: Callable[[], object]) -> None:
        """Call this, which is quick and raises nothing, once the transaction is committed."""
        self._afterwards.append(call)

    def ended(self, requests: Mapping[UUID, int]) -> None:
        """These requests end here, with so many things on record about each; who listens hears of it."""
        self._ended.update(requests)

    async def send(self, connection: AsyncConnection) -> None:
        """Send everything inside the connection's transaction. Raises the driver's errors."""
        raw = driver_of(connection)
        async with raw.pipeline(), raw.cursor() as cursor:
            for sql, parameters in self._statements:
                await cursor.execute(sql, parameters)
            await jobs.defer(raw, self._hints)
        after_commit.add_callbacks(connection, self._afterwards)
        after_commit.add_ended(connection, self._ended)


async def query(connection: AsyncConnection, *questions: TextClause, **parameters: Any) -> list[list[Any]]:
    """Send these one behind the other; returns the rows of each, with their columns as attributes.

    Each starts when the one before it has ended, a wait for a lock included, and sees what is committed then.
    All take their values from the same ``parameters``. Also for what is asked all day long alone: SQLAlchemy takes
    as long to pass a question on as the driver to ask it.
    """
    raw = driver_of(connection)
    if len(questions) == 1:
        cursor = raw.cursor(row_factory=namedtuple_row)
        await cursor.execute(_spelled(questions[0]), parameters)
        return [await _rows(cursor)]
    async with raw.pipeline():
        cursors = []
        for question in questions:
            cursor = raw.cursor(row_factory=namedtuple_row)
            cursors.append(await cursor.execute(_spelled(question), parameters))
    return [await _rows(cursor) for cursor in cursors]


async def _rows(cursor: AsyncCursor[Any]) -> list[Any]:
    return await cursor.fetchall() if cursor.description else []


def _spelled_out(value: Any) -> str:
    """As PostgreSQL reads it from a text."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"no text for a value of type {type(value).__name__}")


@cache
def _spelled(question: TextClause) -> LiteralString:
    """The statement as the driver wants its parameters named."""
    return question.compile(dialect=_DIALECT).string


_DIALECT = PGDialect_psycopg()  # type: ignore[no-untyped-call]

"""The psycopg connection and the SQL text below SQLAlchemy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, LiteralString, cast

import psycopg
from psycopg.abc import PQGen
from psycopg.generators import send
from sqlalchemy import BindParameter, SelectBase, TextClause
from sqlalchemy.dialects.postgresql.psycopg import PGCompiler_psycopg, PGDialect_psycopg
from sqlalchemy.ext.asyncio import AsyncConnection

Statement = TextClause | SelectBase


def driver_of(connection: AsyncConnection) -> psycopg.AsyncConnection[Any]:
    """Valid only while the caller holds `connection`."""
    raw = connection.sync_connection.connection.driver_connection  # type: ignore[union-attr]
    return cast("psycopg.AsyncConnection[Any]", raw)


@asynccontextmanager
async def pipeline(raw: psycopg.AsyncConnection[Any]) -> AsyncIterator[None]:
    """Send the block's statements in one round trip, which its end awaits. Raises the driver's errors."""
    raw._pipeline = batch = _Pipeline(raw)  # noqa: SLF001 - psycopg has no way to ask for another class
    try:
        async with batch:
            yield
    finally:
        raw._pipeline = None  # noqa: SLF001


class _Pipeline(psycopg.AsyncPipeline):
    """A pipeline whose last message is its Sync.

    psycopg adds a Flush. PostgreSQL ends its timer of idle transactions at any message and begins it only with the
    answer to a Sync, so a stopped process would keep its locks for ever.
    """

    def _fetch_gen(self, *, flush: bool) -> PQGen[None]:
        if flush:  # Sync makes the server answer; what the socket did not take at once is still to be sent
            yield from send(self.pgconn)
        yield from super()._fetch_gen(flush=False)


@cache
def sql_of(statement: Statement) -> LiteralString:
    """A constant statement's own values become literals, which partial indexes need."""
    return statement.compile(dialect=_DIALECT).string


class _Compiler(PGCompiler_psycopg):
    def visit_bindparam(self, bindparam: BindParameter[Any], *args: Any, **options: Any) -> Any:
        if not bindparam.required:
            options["literal_binds"] = True
        return super().visit_bindparam(bindparam, *args, **options)  # type: ignore[no-untyped-call]


class _Dialect(PGDialect_psycopg):
    statement_compiler = _Compiler


_DIALECT = _Dialect()  # type: ignore[no-untyped-call]

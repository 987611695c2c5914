"""The psycopg connection and the SQL text below SQLAlchemy."""

from __future__ import annotations

from functools import cache
from typing import Any, LiteralString, cast

import psycopg
from sqlalchemy import BindParameter, SelectBase, TextClause
from sqlalchemy.dialects.postgresql.psycopg import PGCompiler_psycopg, PGDialect_psycopg
from sqlalchemy.ext.asyncio import AsyncConnection

Statement = TextClause | SelectBase


def driver_of(connection: AsyncConnection) -> psycopg.AsyncConnection[Any]:
    """Valid only while the caller holds `connection`."""
    raw = connection.sync_connection.connection.driver_connection  # type: ignore[union-attr]
    return cast("psycopg.AsyncConnection[Any]", raw)


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

"""Compare rows of consent with their audit events; either may be altered or missing.

The service's own login may append any event. So nothing of a detail is cast or written out, which fails for some
values: its members are compared as JSON, where 1.0 is 1 and "1" is not. Only a string or a number is shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy import Row, TextClause

from agent.database.transaction import Connection, fetch
from agent.domain.audit import ChainProblem

PAGE = 1000
"""Rows in memory at a time."""

Comparison = Callable[[Connection], Awaitable[list[ChainProblem]]]


async def differing(statement: TextClause, connection: Connection) -> list[ChainProblem]:
    """Each row of the result is a problem."""
    rows = await connection.execute(statement)
    return [ChainProblem(row.subject, row.seq, row.what) for row in rows]


async def judged_one_by_one(
    statement: TextClause,
    is_altered: Callable[[Row[Any]], bool],
    connection: Connection,
    *,
    after: UUID | bytes = UUID(int=0),  # noqa: B008 - a constant
) -> list[ChainProblem]:
    """Rows, by their ids, that are altered, or about which that cannot be said."""
    found: list[ChainProblem] = []
    while rows := await fetch(connection, statement, after=after, page=PAGE):
        for row in rows:
            try:
                altered = is_altered(row)
            except (AttributeError, KeyError, TypeError, ValueError):
                altered = True
            if altered:
                found.append(ChainProblem(row.subject, row.seq, row.what))
        after = rows[-1].id
    return found


def by_terms(statement: TextClause, digest: Callable[[Row[Any]], str]) -> Comparison:
    """Rows whose digest has to be the ``terms_recorded`` of their latest event."""
    return partial(judged_one_by_one, statement, lambda row: digest(row) != row.terms_recorded)

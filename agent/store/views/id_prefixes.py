"""From what somebody typed for an id to the ids that may be meant."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import TextClause

from agent.database.transaction import Connection
from agent.domain.short_ids import parse_id_prefix

BETWEEN = "id BETWEEN :first AND :last AND replace(CAST(id AS text), '-', '') ~ :pattern LIMIT 2"
"""The end of a query for `meant`."""


async def ids_with_prefix(connection: Connection, query: TextClause, typed: str, **more: str) -> list[UUID]:
    """Up to two ids that fit a whole id, its beginning or its short form; two mean ambiguous."""
    wanted = parse_id_prefix(typed)
    if wanted is None:
        return []
    parameters = {"first": wanted.first, "last": wanted.last, "pattern": wanted.pattern, **more}
    return list((await connection.execute(query, parameters)).scalars())

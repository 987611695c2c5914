"""Find requests and runs by a full id, a prefix, or the short form."""

from __future__ import annotations

from functools import cache
from uuid import UUID

from sqlalchemy import Select, Table, Text, bindparam, cast, func, select

from agent.database.transaction import Connection, fetch
from agent.domain.short_ids import parse_id_prefix
from agent.store.tables import agent_run, approval_request


async def requests_like(connection: Connection, *, id_prefix: str, team_id: str | None = None) -> list[UUID]:
    """At most two ids; two mean ambiguous."""
    return await _ids_like(connection, approval_request, id_prefix, team_id)


async def runs_like(connection: Connection, *, id_prefix: str, team_id: str | None = None) -> list[UUID]:
    """At most two ids; two mean ambiguous."""
    return await _ids_like(connection, agent_run, id_prefix, team_id)


async def _ids_like(connection: Connection, table: Table, typed: str, team_id: str | None) -> list[UUID]:
    wanted = parse_id_prefix(typed)
    if wanted is None:
        return []
    key = {"first": wanted.first, "last": wanted.last, "pattern": wanted.pattern, "team": team_id}
    rows = await fetch(connection, _like(table, of_team=team_id is not None), **key)
    return [row.id for row in rows]


@cache
def _like(table: Table, *, of_team: bool) -> Select[tuple[UUID]]:
    written = func.replace(cast(table.c.id, Text), "-", "")
    found = (
        select(table.c.id)
        .where(table.c.id.between(bindparam("first"), bindparam("last")))
        .where(written.regexp_match(bindparam("pattern")))
        .limit(2)
    )
    return found.where(table.c.team_id == bindparam("team")) if of_team else found

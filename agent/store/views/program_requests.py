"""Requests as the programs look for them that asked: by their own names, and in pages, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from uuid import UUID

from sqlalchemy import Select, bindparam, select, text, tuple_

from agent.database.transaction import Connection, fetch
from agent.domain.request import RequestStatus
from agent.store.rows import row_as
from agent.store.tables import approval_request
from agent.store.views.request_parts import last_position


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """What was opened under a name, and the digest of what was sent with it."""

    request_id: UUID
    content_digest: bytes


async def client_request(connection: Connection, principal: str, client_id: str) -> ClientRequest | None:
    """The request that this principal has opened under this name."""
    row = (await connection.execute(_OPENED_AS, {"principal": principal, "client": client_id})).one_or_none()
    return None if row is None else ClientRequest(row.id, bytes(row.content_digest))


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many requests of a key wait, and how many bytes people are shown of them, counted up to the limit."""

    requests: int
    size: int


async def waiting_of_key(connection: Connection, principal: str, limit: int) -> Waiting:
    """What this key has put to people and nobody has decided yet."""
    (row,) = await fetch(connection, _WAITING_OF_KEY, principal=principal, limit=limit)
    return row_as(Waiting, row)


async def requests_by_client_id(connection: Connection, team_id: str, client_id: str) -> Sequence[UUID]:
    """Up to two requests that programs of this team have opened under this name; two mean ambiguous."""
    return list((await connection.execute(_NAMED, {"team": team_id, "client": client_id})).scalars())


async def requests_page(
    connection: Connection,
    team_id: str,
    *,
    principal: str | None = None,
    status: RequestStatus | None = None,
    agent: str | None = None,
    since: datetime | None = None,
    limit: int = 50,
    after: UUID | None = None,
) -> list[UUID]:
    """A page of requests, newest first; ``after`` is the last one of the page before."""
    given = {"principal": principal, "agent": agent, "since": since, "after": after}
    filters = frozenset(name for name, value in given.items() if value is not None)
    rows = await fetch(connection, _page(status, filters), team=team_id, limit=limit, **given)
    return [row.id for row in rows]


_OPENED_AS = text(
    "SELECT id, content_digest FROM approval_request WHERE principal = :principal AND client_id = :client"
)
# The size on disk, for which nothing has to be unpacked.
_WAITING_OF_KEY = text("""
SELECT count(*) AS requests, coalesce(sum(w.size), 0)::bigint AS size FROM (
    SELECT pg_column_size(v.action) + pg_column_size(v.context) AS size
    FROM approval_request AS r JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
    WHERE r.principal = :principal AND r.status = 'waiting' AND r.call_id IS NULL LIMIT :limit
) AS w
""")
_NAMED = text(
    "SELECT id FROM approval_request WHERE client_id = :client AND team_id = :team AND source = 'api' LIMIT 2"
)
_REQUEST = approval_request.c
_FILTERS = {
    "principal": _REQUEST.principal == bindparam("principal"),
    "agent": _REQUEST.agent == bindparam("agent"),
    "since": _REQUEST.created_at >= bindparam("since"),
    "after": tuple_(_REQUEST.created_at, _REQUEST.id) < last_position(_REQUEST.created_at),
}


@cache
def _page(status: RequestStatus | None, filters: frozenset[str]) -> Select[tuple[UUID]]:
    page = (
        select(_REQUEST.id)
        .where(_REQUEST.team_id == bindparam("team"), *(_FILTERS[name] for name in sorted(filters)))
        .order_by(_REQUEST.created_at.desc(), _REQUEST.id.desc())
        .limit(bindparam("limit"))
    )
    # Part of the statement, so that the index of what waits can be used.
    return page if status is None else page.where(_REQUEST.status == status)

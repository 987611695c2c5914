"""Requests for the programs that asked: by client id, and in pages, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Select,
    Uuid,
    and_,
    any_,
    bindparam,
    func,
    literal_column,
    select,
    text,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY

from agent.database.transaction import Connection, fetch
from agent.domain.request import RequestStatus
from agent.store.rows import row_as
from agent.store.tables import approval_request, execution, request_revision
from agent.store.views.request_rows import last_position, present_revision

MAX_BYTES = 2**20
"""Bytes of a page: the process that serves people reads, masks and encodes it."""


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request that a program opened under a client id, with a digest to recognize other content."""

    request_id: UUID
    content_digest: bytes


async def client_request(connection: Connection, principal: str, client_id: str) -> ClientRequest | None:
    """Return the current request under a principal's client id, or None if the id is new."""
    row = (await connection.execute(OPENED_AS, {"principal": principal, "client": client_id})).one_or_none()
    return None if row is None else ClientRequest(row.id, bytes(row.content_digest))


@dataclass(frozen=True, slots=True)
class Waiting:
    """Numbers of requests and displayed bytes, counted up to the limit."""

    requests: int
    size: int


async def waiting_of_key(connection: Connection, principal: str, limit: int) -> Waiting:
    """Return the number and stored size of a key's waiting requests, from at most `limit` rows."""
    (row,) = await fetch(connection, _WAITING_OF_KEY, principal=principal, limit=limit)
    return row_as(Waiting, row)


@dataclass(frozen=True, slots=True)
class RequestIds:
    """A page of request ids; `next` is the id to continue after, or None on the last page."""

    ids: Sequence[UUID]
    next: UUID | None


async def requests_by_client_id(connection: Connection, team_id: str, client_id: str) -> Sequence[UUID]:
    """At most twenty ids, because programs choose names without asking each other."""
    return list((await connection.execute(_NAMED, {"team": team_id, "client": client_id})).scalars())


async def requests_page(
    connection: Connection,
    team_id: str,
    *,
    principal: str | None = None,
    status: RequestStatus | None = None,
    agent: str | None = None,
    since: datetime | None = None,
    ids: Sequence[UUID] | None = None,
    limit: int = 50,
    most: int = MAX_BYTES,
    after: UUID | None = None,
) -> RequestIds:
    """A page of about ``most`` bytes, newest first; ``after``: the previous page's last id."""
    given = {"principal": principal, "agent": agent, "since": since, "ids": ids, "after": after}
    filters = frozenset(name for name, value in given.items() if value is not None)
    page = _page(status, filters)
    rows = await fetch(connection, page, team=team_id, limit=limit, most=most, **given)
    found = [row.id for row in rows]
    has_more = bool(rows) and (rows[0].found == limit or rows[0].found > len(rows))
    return RequestIds(found, found[-1] if has_more else None)


OPENED_AS = text("""
SELECT r.id, c.content_digest FROM tool_call AS c
JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
WHERE c.principal = :principal AND c.client_id = :client
""")
# The size on disk, so that nothing is unpacked.
_WAITING_OF_KEY = text("""
SELECT count(*) AS requests, coalesce(sum(w.size), 0)::bigint AS size FROM (
    SELECT pg_column_size(v.action) + pg_column_size(v.context) + coalesce(pg_column_size(v.facts), 0) AS size
    FROM approval_request AS r JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
    WHERE r.principal = :principal AND r.status = 'waiting' AND r.run_id IS NULL LIMIT :limit
) AS w
""")
_NAMED = text("""
SELECT id FROM approval_request
WHERE client_id = :client AND team_id = :team AND source = 'api' AND voided_at IS NULL LIMIT 20
""")
# Adding nothing to a context unpacks it: its true size without writing it as text.
_EMPTY: ColumnElement[Any] = literal_column("'{}'::jsonb")
_REQUEST = approval_request.c
_FILTERS = {
    "principal": and_(_REQUEST.principal == bindparam("principal"), _REQUEST.run_id.is_(None)),
    "agent": _REQUEST.agent == bindparam("agent"),
    "since": _REQUEST.created_at >= bindparam("since"),
    "ids": _REQUEST.id == any_(bindparam("ids", type_=ARRAY(Uuid))),
    "after": tuple_(_REQUEST.created_at, _REQUEST.id) < last_position(_REQUEST.created_at),
}


@cache
def _page(status: RequestStatus | None, filters: frozenset[str]) -> Select[tuple[UUID, int]]:
    page = (
        select(_REQUEST.id, _REQUEST.created_at, _REQUEST.revision)
        .where(_REQUEST.team_id == bindparam("team"), *(_FILTERS[name] for name in sorted(filters)))
        .order_by(_REQUEST.created_at.desc(), _REQUEST.id.desc())
        .limit(bindparam("limit"))
    )
    # Part of the statement, so that the index of waiting requests is used.
    return _cut(page if status is None else page.where(_REQUEST.status == status))


def _cut(page: Select[Any]) -> Select[tuple[UUID, int]]:
    """Leave at least one; ``found`` is the full page's count."""
    listed = page.cte("listed").prefix_with("MATERIALIZED")
    order = (listed.c.created_at.desc(), listed.c.id.desc())
    results = select(func.sum(func.octet_length(execution.c.result))).where(
        execution.c.request_id == listed.c.id
    )
    size = (
        func.octet_length(request_revision.c.action)
        + func.coalesce(func.octet_length(request_revision.c.facts), 0)
        + func.pg_column_size(request_revision.c.context.concat(_EMPTY))
        + func.coalesce(results.scalar_subquery(), 0)
    )
    sized = (
        select(
            listed.c.id,
            listed.c.created_at,
            func.sum(size).over(order_by=order, rows=(None, -1)).label("before"),
            func.count().over().label("found"),
        )
        .join(request_revision, present_revision(listed, request_revision))
        .subquery("sized")
    )
    return (
        select(sized.c.id, sized.c.found)
        .where(func.coalesce(sized.c.before, 0) < bindparam("most"))
        .order_by(sized.c.created_at.desc(), sized.c.id.desc())
    )

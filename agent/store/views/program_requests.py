"""Requests as the programs look for them that asked: by their own names, and in pages, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection
from agent.domain.request import RequestStatus


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """What was opened under a name, and the digest of what was sent with it."""

    request_id: UUID
    content_digest: bytes


async def client_request(connection: Connection, principal: str, client_id: str) -> ClientRequest | None:
    """The request that this principal has opened under this name."""
    row = (await connection.execute(_OPENED_AS, {"principal": principal, "client": client_id})).one_or_none()
    return None if row is None else ClientRequest(row.id, bytes(row.content_digest))


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
    given = {name: value for name, value in given.items() if value is not None}
    conditions = "".join(f" AND {_CONDITIONS[name]}" for name in given)
    # Written out, so that the index of what waits can be used.
    conditions += f" AND status = '{status.value}'" if status else ""
    query = text(_PAGE.replace("{conditions}", conditions))
    return list((await connection.execute(query, {"team": team_id, "limit": limit, **given})).scalars())


_OPENED_AS = text(
    "SELECT id, content_digest FROM approval_request WHERE principal = :principal AND client_id = :client"
)
_NAMED = text(
    "SELECT id FROM approval_request WHERE client_id = :client AND team_id = :team AND source = 'api' LIMIT 2"
)
_CONDITIONS = {
    "principal": "principal = :principal",
    "agent": "agent = :agent",
    "since": "created_at >= :since",
    "after": "(created_at, id) < ((SELECT created_at FROM approval_request WHERE id = :after), CAST(:after AS uuid))",
}
_PAGE = """
SELECT id FROM approval_request WHERE team_id = :team{conditions} ORDER BY created_at DESC, id DESC LIMIT :limit
"""

"""A group of requests, as its message shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection

SHOWN = 20
"""Requests that a group's message names."""


@dataclass(frozen=True, slots=True)
class RequestGroup:
    """How many requests a group has, how many of them wait, until when at least, and the first of them."""

    requests: int = 0
    waiting: int = 0
    first_deadline: datetime | None = None
    first: tuple[UUID, ...] = ()


async def request_group(connection: Connection, name: str) -> RequestGroup:
    """Return a group without those that have left it; an empty one if there is none of that name."""
    row = (await connection.execute(_GROUP, {"name": name, "shown": SHOWN})).one()
    return RequestGroup(row.requests, row.waiting, row.first_deadline, tuple(row.first or ()))


_GROUP = text("""
SELECT count(*) AS requests, count(*) FILTER (WHERE r.status = 'waiting') AS waiting,
       min(r.expires_at) FILTER (WHERE r.status = 'waiting') AS first_deadline,
       (array_agg(r.id ORDER BY c.turn, c.index, r.id))[1:CAST(:shown AS int)] AS first
FROM card_place AS p JOIN approval_request AS r ON r.id = p.request_id JOIN tool_call AS c ON c.id = r.call_id
WHERE p.digest = :name
""")

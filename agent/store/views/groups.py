"""A group of requests, as its message shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Uuid, bindparam, func, select
from sqlalchemy.dialects.postgresql import ARRAY, aggregate_order_by

from agent.database.transaction import Connection, fetch
from agent.domain.request import RequestStatus
from agent.store.tables import card_place
from agent.store.views.request_lines import request
from agent.store.views.request_rows import asked_position

SHOWN = 20
"""Requests that a group's message names."""


@dataclass(frozen=True, slots=True)
class RequestGroup:
    """How many requests a group has, how many of them wait, until when at least, and the first that were asked."""

    requests: int = 0
    waiting: int = 0
    first_deadline: datetime | None = None
    first: tuple[UUID, ...] = ()


async def request_group(connection: Connection, name: str) -> RequestGroup:
    """Return a group without those that have left it; an empty one if there is none of that name."""
    (row,) = await fetch(connection, _GROUP, name=name)
    return RequestGroup(row.requests, row.waiting, row.first_deadline, tuple(row.ids or ())[:SHOWN])


_waits = request.c.status == RequestStatus.WAITING
_GROUP = (
    select(
        func.count().label("requests"),
        func.count().filter(_waits).label("waiting"),
        func.min(request.c.expires_at).filter(_waits).label("first_deadline"),
        func.array_agg(aggregate_order_by(request.c.id, *asked_position(request)), type_=ARRAY(Uuid)).label(
            "ids"
        ),
    )
    .select_from(card_place.join(request, request.c.id == card_place.c.request_id))
    .where(card_place.c.digest == bindparam("name"))
)

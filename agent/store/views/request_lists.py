"""One page of requests after the id ``after``."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, bindparam, select, tuple_, union

from agent.database.transaction import Connection, fetch
from agent.domain.request_filter import RequestFilter, RequestKind, RequestOrder
from agent.domain.request_line import HistoryLine, RequestLine
from agent.store.tables import decision
from agent.store.views import request_filters
from agent.store.views.request_filters import EVERYTHING
from agent.store.views.request_lines import history_line, lines, request, request_line, team
from agent.store.views.request_parts import approved_by, last_position
from signoff.values import Person


async def requests_of(
    connection: Connection, person: Person, limit: int = 20, after: UUID | None = None
) -> list[RequestLine]:
    page = _requests_of(limit, later=after is not None)
    rows = await fetch(connection, page, team=person.team_id, user=person.user_id, after=after)
    return [request_line(row) for row in rows]


async def found_requests(
    connection: Connection,
    team_id: str,
    kind: RequestKind,
    wanted: RequestFilter = EVERYTHING,
    order: RequestOrder = RequestOrder.NEWEST,
    *,
    limit: int = 20,
    after: UUID | None = None,
) -> list[HistoryLine]:
    given = request_filters.values(wanted)
    page = _found(kind, frozenset(given), order, limit, later=after is not None)
    rows = await fetch(connection, page, team=team_id, after=after, **given)
    return [history_line(row) for row in rows]


@cache
def _requests_of(limit: int, *, later: bool) -> Select[Any]:
    order = (request.c.created_at.desc(), request.c.id.desc())
    page = select(request.c.id).where(
        request.c.requester_team_id == team, request.c.requester_user_id == bindparam("user")
    )
    if later:
        page = page.where(tuple_(request.c.created_at, request.c.id) < last_position(request.c.created_at))
    return lines(page.order_by(*order).limit(limit), *order)


@cache
def _found(
    kind: RequestKind, names: frozenset[str], order: RequestOrder, limit: int, *, later: bool
) -> Select[Any]:
    by = request_filters.order_by(kind, order)
    conditions = request_filters.conditions(kind, names)
    if later:
        conditions.append(request_filters.comes_after(kind, order))
    page = select(request.c.id).where(*conditions).order_by(*by).limit(limit)
    if "person_user" not in names:
        return lines(page, *by)
    # Three index walks: requested, decided, and approved with others.
    person_team: ColumnElement[str] = bindparam("person_team")
    person_user: ColumnElement[str] = bindparam("person_user")
    asked = page.where(request.c.requester_team_id == person_team, request.c.requester_user_id == person_user)
    of_decision = page.join(decision, request.c.id == decision.c.request_id)
    decided = of_decision.where(decision.c.team_id == person_team, decision.c.user_id == person_user)
    approved = of_decision.where(approved_by(person_team, person_user))
    if kind is RequestKind.DECIDED and order in (RequestOrder.NEWEST, RequestOrder.OLDEST):
        at = (decision.c.decided_at, decision.c.request_id)
        down = order is RequestOrder.NEWEST
        decided = decided.order_by(None).order_by(*(each.desc() if down else each.asc() for each in at))
    together = union(asked, decided, approved).subquery()
    return lines(
        select(request.c.id).where(request.c.id.in_(select(together.c.id))).order_by(*by).limit(limit), *by
    )

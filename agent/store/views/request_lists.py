"""Requests that somebody asked for, and requests that have an outcome; every list is one page of an index.

``after`` is the last id of the page before.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, bindparam, desc, select, tuple_, union

from agent.database.transaction import Connection, fetch
from agent.domain.request import HistoryLine, RequestLine, RequestStatus
from agent.store.tables import decision
from agent.store.views.request_lines import history_line, limit, lines, of_team, request, request_line, team
from agent.store.views.request_parts import last_position
from signoff.values import Person


async def requests_of(
    connection: Connection, person: Person, limit: int = 20, after: UUID | None = None
) -> list[RequestLine]:
    """What was asked on this person's behalf, newest first."""
    page = _requests_of(later=after is not None)
    rows = await fetch(connection, page, team=person.team_id, user=person.user_id, limit=limit, after=after)
    return [request_line(row) for row in rows]


async def history(
    connection: Connection,
    team_id: str,
    *,
    agent: str | None = None,
    person: Person | None = None,
    status: RequestStatus | None = None,
    since: datetime | None = None,
    limit: int = 20,
    after: UUID | None = None,
) -> list[HistoryLine]:
    """Requests that have an outcome, the latest first; what still waits is in none of it.

    ``person`` is who asked or who decided, ``since`` the earliest time of a decision.
    """
    given = {"agent": agent, "status": status, "since": since, "after": after}
    filters = frozenset(name for name, value in given.items() if value is not None)
    of_whom = {"person_team": person.team_id, "person_user": person.user_id} if person else {}
    page = _history(filters, of_person=person is not None)
    rows = await fetch(connection, page, team=team_id, limit=limit, **of_whom, **given)
    return [history_line(row) for row in rows]


@cache
def _requests_of(*, later: bool) -> Select[Any]:
    order = (request.c.created_at.desc(), request.c.id.desc())
    page = select(request.c.id).where(
        request.c.requester_team_id == team, request.c.requester_user_id == bindparam("user")
    )
    if later:
        page = page.where(tuple_(request.c.created_at, request.c.id) < last_position(request.c.created_at))
    return lines(page.order_by(*order).limit(limit), *order)


_FILTERS = {
    "agent": request.c.agent == bindparam("agent"),
    "status": request.c.status == bindparam("status"),
    "since": request.c.decided_at >= bindparam("since"),
    "after": tuple_(request.c.decided_at, request.c.id) < last_position(request.c.decided_at),
}


@cache
def _history(filters: frozenset[str], *, of_person: bool) -> Select[Any]:
    conditions = [of_team, *(_FILTERS[name] for name in sorted(filters))]
    order = (request.c.decided_at.desc(), request.c.id.desc())
    decided = (
        select(request.c.decided_at, request.c.id)
        .where(request.c.decided_at.is_not(None), *conditions)
        .order_by(*order)
        .limit(limit)
    )
    if not of_person:
        return lines(decided, *order)
    person_team: ColumnElement[str] = bindparam("person_team")
    person_user: ColumnElement[str] = bindparam("person_user")
    asked = decided.where(
        request.c.requester_team_id == person_team, request.c.requester_user_id == person_user
    )
    settled = (
        select(decision.c.decided_at, request.c.id)
        .join(request, request.c.id == decision.c.request_id)
        .where(decision.c.team_id == person_team, decision.c.user_id == person_user, *conditions)
        .order_by(decision.c.decided_at.desc(), decision.c.request_id.desc())
        .limit(limit)
    )
    return lines(union(asked, settled).order_by(desc("decided_at"), desc("id")).limit(limit), *order)

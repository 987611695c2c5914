"""One page of requests after the id ``after``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    distinct,
    exists,
    false,
    func,
    or_,
    select,
    tuple_,
    union,
)

from agent.database.transaction import Connection, fetch
from agent.domain.request_list import HistoryLine, RequestFilter, RequestKind, RequestLine, RequestOrder
from agent.store.rows import row_as
from agent.store.tables import decision
from agent.store.views import request_filters
from agent.store.views.request_filters import EVERYTHING
from agent.store.views.request_lines import history_line, lines, request, request_line, team
from agent.store.views.request_rows import approved_by, last_position
from signoff.values import Person


async def requests_of(
    connection: Connection, person: Person, limit: int = 20, after: UUID | None = None
) -> list[RequestLine]:
    """Return up to `limit` of the requests that this person asked for, after the id `after`."""
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
    """Return up to `limit` requests of a workspace that match a filter, after the id `after`."""
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
    who = next((each for each in ("person", "decider") if f"{each}_user" in names), None)
    if who is None:
        return lines(page, *by)
    # Three index walks: requested (of ``person``), decided, and approved with others.
    person_team: ColumnElement[str] = bindparam(f"{who}_team")
    person_user: ColumnElement[str] = bindparam(f"{who}_user")
    asked = page.where(request.c.requester_team_id == person_team, request.c.requester_user_id == person_user)
    of_decision = page.join(decision, request.c.id == decision.c.request_id)
    decided = of_decision.where(decision.c.team_id == person_team, decision.c.user_id == person_user)
    approved = of_decision.where(approved_by(person_team, person_user))
    if kind is RequestKind.DECIDED and order in (RequestOrder.NEWEST, RequestOrder.OLDEST):
        at = (decision.c.decided_at, decision.c.request_id)
        down = order is RequestOrder.NEWEST
        decided = decided.order_by(None).order_by(*(each.desc() if down else each.asc() for each in at))
    together = union(*((asked,) if who == "person" else ()), decided, approved).subquery()
    return lines(
        select(request.c.id).where(request.c.id.in_(select(together.c.id))).order_by(*by).limit(limit), *by
    )


@dataclass(frozen=True, slots=True)
class AudienceCount:
    """``own``: the person asked or decided them."""

    approvers: tuple[str, ...]
    channel_id: str
    own: bool
    number: int


@dataclass(frozen=True, slots=True)
class FilterChoice:
    """``own``: the person asked or decided the requests."""

    approvers: tuple[str, ...]
    channel_id: str
    own: bool
    agents: tuple[str, ...]
    checkpoints: tuple[str, ...]
    requesters: tuple[str, ...]
    """User ids, as are those of ``deciders``."""
    deciders: tuple[str, ...]


async def audience_counts(
    connection: Connection, person: Person, kind: RequestKind, wanted: RequestFilter, at_most: int
) -> list[AudienceCount]:
    """Count the newest of more than ``at_most`` requests."""
    given = request_filters.values(wanted)
    statement = _counts(kind, frozenset(given), at_most)
    rows = await fetch(connection, statement, team=person.team_id, user=person.user_id, **given)
    return [row_as(AudienceCount, row) for row in rows]


async def filter_choices(
    connection: Connection, person: Person, kind: RequestKind, among: int
) -> list[FilterChoice]:
    """Return, by audience, the agents, checkpoints and people of the newest `among` requests."""
    rows = await fetch(connection, _choices(kind, among), team=person.team_id, user=person.user_id)
    return [row_as(FilterChoice, row) for row in rows]


def _is_person(team_id: ColumnElement[Any], user_id: ColumnElement[Any]) -> ColumnElement[bool]:
    return func.coalesce(and_(team_id == team, user_id == bindparam("user")), false())


def _is_own(kind: RequestKind) -> ColumnElement[bool]:
    asked = _is_person(request.c.requester_team_id, request.c.requester_user_id)
    if kind is RequestKind.WAITING:
        return asked
    by = or_(_is_person(decision.c.team_id, decision.c.user_id), approved_by(team, bindparam("user")))
    decided = exists().where(decision.c.request_id == request.c.id, by)
    return or_(asked, decided)


@cache
def _counts(kind: RequestKind, names: frozenset[str], limit: int) -> Select[Any]:
    found = select(request.c.approvers, request.c.channel_id, _is_own(kind).label("own")).where(
        *request_filters.conditions(kind, names)
    )
    if "person_user" in names:
        asked = and_(
            request.c.requester_team_id == bindparam("person_team"),
            request.c.requester_user_id == bindparam("person_user"),
        )
        person_team: ColumnElement[str] = bindparam("person_team")
        person_user: ColumnElement[str] = bindparam("person_user")
        last = and_(decision.c.team_id == person_team, decision.c.user_id == person_user)
        decided = exists().where(
            decision.c.request_id == request.c.id, or_(last, approved_by(person_team, person_user))
        )
        found = found.where(or_(asked, decided))
    # In index order; otherwise PostgreSQL reads the table from its oldest rows.
    newest = request_filters.order_by(kind, RequestOrder.NEWEST)
    some = found.order_by(*newest).limit(limit).subquery("some")
    return select(*some.c, func.count().label("number")).group_by(*some.c)


@cache
def _choices(kind: RequestKind, limit: int) -> Select[Any]:
    decided = decision.alias()
    some = (
        select(
            *request.c["approvers", "channel_id", "agent", "checkpoint_id", "requester_user_id"],
            decided.c.user_id.label("decider"),
            _is_own(kind).label("own"),
        )
        .outerjoin(decided, decided.c.request_id == request.c.id)
        .where(*request_filters.conditions(kind, frozenset()))
        .order_by(*request_filters.order_by(kind, RequestOrder.NEWEST))
        .limit(limit)
        .subquery("some")
    )
    audience = (some.c.approvers, some.c.channel_id, some.c.own)
    return select(
        *audience,
        func.array_agg(distinct(some.c.agent)).label("agents"),
        func.array_agg(distinct(some.c.checkpoint_id)).label("checkpoints"),
        func.array_remove(func.array_agg(distinct(some.c.requester_user_id)), None).label("requesters"),
        func.array_remove(func.array_agg(distinct(some.c.decider)), None).label("deciders"),
    ).group_by(*audience)

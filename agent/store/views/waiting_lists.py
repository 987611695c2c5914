"""Waiting requests by audience; each list is a page of an index. ``after``: the previous page's last id."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Select,
    Text,
    and_,
    any_,
    bindparam,
    case,
    cast,
    column,
    exists,
    func,
    or_,
    select,
    true,
    tuple_,
    union,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSON, JSONB

from agent.database.transaction import Connection, fetch
from agent.domain.request import RequestStatus
from agent.domain.request_list import (
    Count,
    HistoryLine,
    RequestFilter,
    RequestKind,
    RequestLine,
    RequestOrder,
)
from agent.store.tables import vote
from agent.store.views import request_filters
from agent.store.views.request_filters import EVERYTHING
from agent.store.views.request_lines import history_line, lines, of_team, request, request_line, team
from agent.store.views.request_rows import is_live
from signoff.values import Person


async def waiting_for(
    connection: Connection,
    team_id: str,
    user_id: str,
    roles: Sequence[str],
    channels: Sequence[str],
    limit: int = 20,
    after: UUID | None = None,
    wanted: RequestFilter = EVERYTHING,
    order: RequestOrder = RequestOrder.OLDEST,
) -> list[RequestLine]:
    """The person has not voted and is not excluded. ``roles``: user groups."""
    given = request_filters.values(wanted)
    rows = await fetch(
        connection,
        _waiting_for(frozenset(given), order, limit, later=after is not None),
        **parameters(Person(team_id, user_id), roles, channels),
        after=after,
        **given,
    )
    return [request_line(row) for row in rows]


async def count_waiting_for(
    connection: Connection,
    team_id: str,
    user_id: str,
    roles: Sequence[str],
    channels: Sequence[str],
    at_most: int = 200,
    wanted: RequestFilter = EVERYTHING,
) -> Count:
    """Count ``waiting_for``; reads at most twice ``at_most`` rows."""
    given = request_filters.values(wanted)
    (row,) = await fetch(
        connection,
        _count_waiting_for(frozenset(given), at_most),
        **parameters(Person(team_id, user_id), roles, channels),
        **given,
    )
    return Count(min(row.theirs, at_most), row.theirs > at_most or row.looked_at > 2 * at_most)


async def audiences(connection: Connection, team_id: str) -> list[tuple[tuple[str, ...], str]]:
    """Return each audience (reviewers and channel) that a workspace's waiting requests have."""
    rows = await fetch(connection, _AUDIENCES, team=team_id)
    return [(tuple(row.approvers), row.channel_id) for row in rows]


_waits = and_(request.c.status == RequestStatus.WAITING, of_team)


USER = select(bindparam("user", type_=Text)).scalar_subquery()
"""A subquery: otherwise PostgreSQL makes a new plan for each person it knows to be rare."""

# ARRAY(…) keeps the plan, as in `runs.READ`.
_CHANNELS = select(func.unnest(bindparam("channels", type_=ARRAY(Text)))).scalar_subquery()


def _audiences() -> CTE:
    """Walk from audience to audience through the index, without reading rows in between."""
    order = (request.c.approvers, request.c.channel_id)
    first = select(*order).where(_waits).order_by(*order).limit(1)
    audience = first.cte("audience", recursive=True)
    following = (
        first.where(tuple_(*order) > tuple_(audience.c.approvers, audience.c.channel_id))
        .correlate(audience)
        .lateral("following")
    )
    return audience.union_all(select(following).select_from(audience.join(following, true())))


def parameters(person: Person, roles: Sequence[str], channels: Sequence[str]) -> dict[str, Any]:
    """Return the parameters that lists share: the person, their roles (they are one) and channels."""
    return {
        "team": person.team_id,
        "user": person.user_id,
        "roles": [person.user_id, *roles],
        "channels": list(channels),
    }


def each_of(
    audience: CTE,
    names: Sequence[str],
    conditions: Sequence[ColumnElement[bool]],
    limit: int,
    by: Sequence[ColumnElement[Any]] = (),
) -> Select[Any]:
    """Walk the index once per audience, for a list as for a count; the caller says whose audiences it wants."""
    of_audience = (request.c.approvers == audience.c.approvers, request.c.channel_id == audience.c.channel_id)
    found = select(*request.c[*names]).where(*of_audience, *conditions).order_by(*by).limit(limit)
    each = found.lateral("each")
    return select(each).select_from(audience.join(each, true()))


def is_in(audience: CTE) -> ColumnElement[bool]:
    """The condition that a person is in an audience, by name, by a role or by the reviewing channel."""
    return or_(
        func.jsonb_exists_any(audience.c.approvers, bindparam("roles", type_=ARRAY(Text))),
        and_(
            func.jsonb_exists(audience.c.approvers, "channel"),
            audience.c.channel_id == any_(func.array(_CHANNELS)),
        ),
    )


def waits_for_person(asked: FromClause) -> ColumnElement[bool]:
    """The approval would count, and they have not voted."""
    # Built once instead of per row.
    person = select(
        func.jsonb_build_array(func.jsonb_build_object("team", team, "user", bindparam("user", type_=Text)))
    ).scalar_subquery()
    ballot = vote.alias("ballot")
    voted = exists().where(is_live(ballot, asked), ballot.c.team_id == team, ballot.c.user_id == USER)
    return and_(~asked.c.excluded.contains(person), ~voted)


def order_in_audience(order: RequestOrder) -> tuple[ColumnElement[Any], ...]:
    """An audience's ids are in order of creation."""
    match order:
        case RequestOrder.OLDEST:
            return (request.c.id.asc(),)
        case RequestOrder.NEWEST:
            return (request.c.id.desc(),)
        case _:
            return request_filters.order_by(RequestKind.WAITING, order)


@cache
def _waiting_for(names: frozenset[str], order: RequestOrder, limit: int, *, later: bool) -> Select[Any]:
    audience = _audiences()
    by = order_in_audience(order)
    conditions = request_filters.conditions(RequestKind.WAITING, names)
    if later:
        match order:
            case RequestOrder.OLDEST:
                conditions.append(request.c.id > bindparam("after"))
            case RequestOrder.NEWEST:
                conditions.append(request.c.id < bindparam("after"))
            case _:
                conditions.append(request_filters.comes_after(RequestKind.WAITING, order))
    theirs = (waits_for_person(request), *conditions)
    found = each_of(audience, ["id"], theirs, limit, by).where(is_in(audience))
    if order in (RequestOrder.OLDEST, RequestOrder.NEWEST):
        found_id = found.selected_columns["id"]
        by_id = found_id.asc() if order is RequestOrder.OLDEST else found_id.desc()
        return lines(found.order_by(by_id).limit(limit), *by)
    return lines(select(request.c.id).where(request.c.id.in_(found)).order_by(*by).limit(limit), *by)


@cache
def _count_waiting_for(names: frozenset[str], at_most: int) -> Select[int, int]:
    audience, limit, enough = _audiences(), 2 * at_most + 1, at_most + 1
    conditions = request_filters.conditions(RequestKind.WAITING, names)
    looked = (
        each_of(audience, ["id", "revision", "excluded"], conditions, limit, [request.c.id])
        .where(is_in(audience))
        .limit(limit)
        .cte("looked")
        .prefix_with("MATERIALIZED")
    )
    # PostgreSQL reads `looked` on demand, no more than needed.
    some = select(looked.c.id).where(waits_for_person(looked)).limit(enough).subquery("some")
    counted = select(func.count().label("theirs")).select_from(some).subquery("counted")
    looked_at = select(func.count()).select_from(looked).scalar_subquery()
    return select(counted.c.theirs, case((counted.c.theirs == enough, 0), else_=looked_at).label("looked_at"))


_AUDIENCES = select(_audiences())


LOOKED_AT = 500
"""A person's latest requests and votes and oldest reviews are searched."""


async def waiting_for_others(
    connection: Connection,
    person: Person,
    roles: Sequence[str],
    channels: Sequence[str],
    seen: Sequence[tuple[tuple[str, ...], str]],
    limit: int,
    wanted: RequestFilter,
    order: RequestOrder = RequestOrder.OLDEST,
) -> list[HistoryLine]:
    """Requests that this person may see but not (or no longer) decide. ``seen``: audiences they see."""
    given = request_filters.values(wanted)
    whose = _parameters(person, roles, channels, seen)
    rows = await fetch(connection, _page(frozenset(given), order, limit), **whose, **given)
    return [history_line(row) for row in rows]


async def count_waiting_for_others(
    connection: Connection,
    person: Person,
    roles: Sequence[str],
    channels: Sequence[str],
    seen: Sequence[tuple[tuple[str, ...], str]],
    wanted: RequestFilter,
    at_most: int = 200,
) -> Count:
    """Count waiting requests that others decide and this person may see, up to `at_most`."""
    given = request_filters.values(wanted)
    whose = _parameters(person, roles, channels, seen)
    ((found,),) = await fetch(connection, _count(frozenset(given), at_most + 1), **whose, **given)
    return Count(min(found, at_most), found > at_most)


def _parameters(
    person: Person,
    roles: Sequence[str],
    channels: Sequence[str],
    seen: Sequence[tuple[tuple[str, ...], str]],
) -> dict[str, Any]:
    audiences = [{"approvers": approvers, "channel_id": channel_id} for approvers, channel_id in seen]
    return {**parameters(person, roles, channels), "seen": json.dumps(audiences)}


@cache
def _page(names: frozenset[str], order: RequestOrder, limit: int) -> Select[Any]:
    by = order_in_audience(order)
    audience, conditions = _seen(), request_filters.conditions(RequestKind.WAITING, names)
    others = each_of(audience, ["id"], conditions, limit, by).where(~is_in(audience))
    found = union(others, *_not_waiting_for_person(audience, conditions)).subquery("found")
    page = select(request.c.id).join(found, found.c.id == request.c.id).order_by(*by).limit(limit)
    return lines(page, *by)


@cache
def _count(names: frozenset[str], limit: int) -> Select[int]:
    audience, conditions = _seen(), request_filters.conditions(RequestKind.WAITING, names)
    others = each_of(audience, ["id"], conditions, limit).where(~is_in(audience)).limit(limit)
    found = union(others, *_not_waiting_for_person(audience, conditions)).subquery("found")
    return select(func.count()).select_from(found)


def _not_waiting_for_person(
    audience: CTE, conditions: Sequence[ColumnElement[bool]]
) -> tuple[Select[Any], ...]:
    """The person's own requests, and reviews that they voted on or are excluded from."""
    columns = ("id", "revision", "excluded", "approvers", "channel_id")
    asked = (
        select(*request.c[*columns, "status"])
        .where(request.c.requester_team_id == team, request.c.requester_user_id == USER)
        .order_by(request.c.created_at.desc(), request.c.id.desc())
        .limit(LOOKED_AT)
        .cte("asked")
        .prefix_with("MATERIALIZED")
    )
    theirs = (
        each_of(audience, columns, conditions, LOOKED_AT, [request.c.id])
        .where(is_in(audience))
        .limit(LOOKED_AT)
        .cte("theirs")
        .prefix_with("MATERIALIZED")
    )
    own = select(asked.c.id).where(
        asked.c.status == RequestStatus.WAITING,
        or_(~is_in(asked), ~waits_for_person(asked)),
        exists().where(request.c.id == asked.c.id, *conditions),
    )
    return own, select(theirs.c.id).where(~waits_for_person(theirs))


def _seen() -> CTE:
    given = func.json_to_recordset(cast(bindparam("seen"), JSON))
    rows = given.table_valued(column("approvers", JSONB), column("channel_id", Text)).render_derived(
        name="given", with_types=True
    )
    return select(rows.c.approvers, rows.c.channel_id).cte("audience")

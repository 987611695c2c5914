"""Waiting requests that others decide, by audience, so that hidden requests are never read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Select,
    Text,
    bindparam,
    cast,
    column,
    exists,
    func,
    or_,
    select,
    union,
)
from sqlalchemy.dialects.postgresql import JSON, JSONB

from agent.database.transaction import Connection, fetch
from agent.domain.request import RequestStatus
from agent.domain.request_filter import RequestFilter, RequestKind, RequestOrder
from agent.domain.request_line import Count, HistoryLine
from agent.store.views import request_filters
from agent.store.views.request_lines import history_line, lines, request, team
from agent.store.views.waiting_lists import (
    USER,
    each_of,
    is_in,
    order_in_audience,
    parameters,
    waits_for_person,
)
from signoff.values import Person

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

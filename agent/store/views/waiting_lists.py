"""Requests that wait, and for whom; every list is one page of an index. ``after`` is the last id of the page before."""

from __future__ import annotations

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
    exists,
    func,
    or_,
    select,
    text,
    true,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY

from agent.database.transaction import Connection, fetch
from agent.domain.request import Count, RequestLine, RequestStatus
from agent.store.tables import vote
from agent.store.views.request_lines import limit, lines, of_team, request, request_line, team
from agent.store.views.request_parts import is_live, last_position

FIRST = UUID(int=0)


async def waiting_requests(
    connection: Connection, *, team_id: str, limit: int = 20, after: UUID | None = None
) -> list[RequestLine]:
    """Waiting requests of a team, oldest first."""
    page = _waiting(later=after is not None)
    rows = await fetch(connection, page, team=team_id, limit=limit, after=after)
    return [request_line(row) for row in rows]


async def count_waiting(connection: Connection, *, team_id: str, at_most: int = 1000) -> int:
    """How many wait, counted up to ``at_most`` so that the answer stays cheap."""
    parameters = {"team": team_id, "limit": at_most}
    found: int = (await connection.execute(_COUNT_WAITING, parameters)).scalar_one()
    return found


async def waiting_for(
    connection: Connection,
    team_id: str,
    user_id: str,
    roles: Sequence[str],
    channels: Sequence[str],
    limit: int = 20,
    after: UUID | None = None,
) -> list[RequestLine]:
    """What waits for this person's approval, oldest first: not voted on yet, and not excluded from.

    ``roles`` are the user groups that the person is in, ``channels`` the review channels.
    """
    rows = await fetch(
        connection,
        _WAITING_FOR,
        team=team_id,
        user=user_id,
        roles=[user_id, *roles],
        channels=list(channels),
        limit=limit,
        after=after or FIRST,
    )
    return [request_line(row) for row in rows]


async def count_waiting_for(
    connection: Connection,
    team_id: str,
    user_id: str,
    roles: Sequence[str],
    channels: Sequence[str],
    at_most: int = 1000,
) -> Count:
    """How many ``waiting_for`` would list on all its pages, counted up to ``at_most``.

    However much waits, at most twice as many rows are looked at: what this person may not decide, or has voted on,
    could otherwise be without end.
    """
    (row,) = await fetch(
        connection,
        _COUNT_WAITING_FOR,
        team=team_id,
        user=user_id,
        roles=[user_id, *roles],
        channels=list(channels),
        limit=2 * at_most + 1,
    )
    return Count(min(row.theirs, at_most), row.theirs > at_most or row.looked_at > 2 * at_most)


async def audiences(connection: Connection, team_id: str) -> list[tuple[tuple[str, ...], str]]:
    """The different sets of approvers among what waits, each with the card's channel: few, however much waits."""
    rows = await fetch(connection, _AUDIENCES, team=team_id)
    return [(tuple(row.approvers), row.channel_id) for row in rows]


_waits = and_(request.c.status == RequestStatus.WAITING, of_team)


@cache
def _waiting(*, later: bool) -> Select[Any]:
    order = (request.c.created_at, request.c.id)
    page = select(request.c.id).where(_waits).order_by(*order).limit(limit)
    if later:
        page = page.where(tuple_(*order) > last_position(request.c.created_at))
    return lines(page, *order)


_COUNT_WAITING = text("""
SELECT count(*) FROM (SELECT 1 FROM approval_request WHERE status = 'waiting' AND team_id = :team LIMIT :limit) AS w
""")


def _audiences() -> CTE:
    """From one audience to the next through the index, without reading what lies between them."""
    order = (request.c.approvers, request.c.channel_id)
    first = select(*order).where(_waits).order_by(*order).limit(1)
    audience = first.cte("audience", recursive=True)
    following = (
        first.where(tuple_(*order) > tuple_(audience.c.approvers, audience.c.channel_id))
        .correlate(audience)
        .lateral("following")
    )
    return audience.union_all(select(following).select_from(audience.join(following, true())))


def _is_in(audience: CTE) -> ColumnElement[bool]:
    """Whether the person is one of those who may decide."""
    return or_(
        func.jsonb_exists_any(audience.c.approvers, bindparam("roles", type_=ARRAY(Text))),
        and_(
            func.jsonb_exists(audience.c.approvers, "channel"),
            audience.c.channel_id == any_(bindparam("channels", type_=ARRAY(Text))),
        ),
    )


def _waits_for_person(asked: FromClause) -> ColumnElement[bool]:
    """Whether the person's approval would count and there is no vote of theirs."""
    user = bindparam("user", type_=Text)
    # A subquery, so that it is built once and not for each row.
    person = select(
        func.jsonb_build_array(func.jsonb_build_object("team", team, "user", user))
    ).scalar_subquery()
    ballot = vote.alias("ballot")
    voted = exists().where(is_live(ballot, asked), ballot.c.team_id == team, ballot.c.user_id == user)
    return and_(~asked.c.excluded.contains(person), ~voted)


def _waiting_for() -> Select[Any]:
    audience = _audiences()
    theirs = (
        select(request.c.id)
        .where(
            _waits,
            request.c.approvers == audience.c.approvers,
            request.c.channel_id == audience.c.channel_id,
            request.c.id > bindparam("after"),
            _waits_for_person(request),
        )
        .order_by(request.c.id)
        .limit(limit)
        .lateral("theirs")
    )
    page = (
        select(theirs.c.id)
        .select_from(audience.join(theirs, true()))
        .where(_is_in(audience))
        .order_by(theirs.c.id)
        .limit(limit)
    )
    return lines(page, request.c.id)


def _count_waiting_for() -> Select[int, int]:
    audience = _audiences()
    each = (
        select(request.c.id, request.c.revision, request.c.excluded)
        .where(
            _waits,
            request.c.approvers == audience.c.approvers,
            request.c.channel_id == audience.c.channel_id,
        )
        .order_by(request.c.id)
        .limit(limit)
        .lateral("each")
    )
    looked = (
        select(each)
        .select_from(audience.join(each, true()))
        .where(_is_in(audience))
        .limit(limit)
        .cte("looked")
        .prefix_with("MATERIALIZED")
    )
    return select(
        func.count().label("looked_at"), func.count().filter(_waits_for_person(looked)).label("theirs")
    ).select_from(looked)


_AUDIENCES = select(_audiences())
_WAITING_FOR = _waiting_for()
_COUNT_WAITING_FOR = _count_waiting_for()

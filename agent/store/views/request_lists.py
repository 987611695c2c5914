"""One page of requests after the id ``after``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import (
    CTE,
    ColumnElement,
    Select,
    Subquery,
    Uuid,
    and_,
    any_,
    bindparam,
    distinct,
    exists,
    false,
    func,
    or_,
    select,
    true,
    tuple_,
    union,
)
from sqlalchemy.dialects.postgresql import ARRAY

from agent.database.transaction import Connection, fetch
from agent.domain.request_list import HistoryLine, RequestFilter, RequestKind, RequestLine, RequestOrder
from agent.store.rows import row_as
from agent.store.tables import decision
from agent.store.views import request_filters
from agent.store.views.request_filters import EVERYTHING
from agent.store.views.request_lines import history_line, lines, request, request_line, team
from agent.store.views.request_rows import approved_by, last_position
from signoff.values import Person

WALKED = 1_000
"""Requests that a walk through the latest looks at, or four times a page."""

MAX_SORTED = 1_000
"""The latest of those that do not wait, which are sorted by deadline or risk."""

_RANGE = frozenset({"since", "until"})
_OWN_INDEX = (frozenset({"agent"}), frozenset({"status"}))
"""In the order of decisions."""


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
    """Return up to `limit` requests of a workspace that match a filter, after the id `after`.

    With a filter that many match, it may be fewer than there are: see `FoundRequest.cut`.
    """
    given = request_filters.values(wanted)
    page = _found(kind, frozenset(given), order, limit, later=after is not None)
    rows = await fetch(connection, page, team=team_id, after=after, **given)
    return [history_line(row) for row in rows]


@dataclass(frozen=True, slots=True)
class FoundRequest:
    """What says who may see a request. ``own``: the person asked or decided it. ``cut``: more follow, though the page
    is not full.
    """

    id: UUID
    approvers: tuple[str, ...]
    channel_id: str
    own: bool
    cut: bool


async def found_for(
    connection: Connection,
    person: Person,
    kind: RequestKind,
    wanted: RequestFilter,
    order: RequestOrder,
    *,
    limit: int,
    after: UUID | None = None,
) -> list[FoundRequest]:
    """As `found_requests`, only with what says who may see them."""
    given = request_filters.values(wanted)
    page = _found_for(kind, frozenset(given), order, limit, later=after is not None)
    rows = await fetch(connection, page, team=person.team_id, user=person.user_id, after=after, **given)
    return [row_as(FoundRequest, row) for row in rows]


async def history_lines(connection: Connection, ids: Sequence[UUID]) -> list[HistoryLine]:
    """Return requests as lines, in the given order."""
    rows = await fetch(connection, _LINES, ids=list(ids)) if ids else []
    found = {row.id: row for row in rows}
    return [history_line(found[each]) for each in ids if each in found]


@cache
def _requests_of(limit: int, *, later: bool) -> Select[Any]:
    order = (request.c.created_at.desc(), request.c.id.desc())
    page = select(request.c.id).where(
        request.c.requester_team_id == team, request.c.requester_user_id == bindparam("user")
    )
    if later:
        page = page.where(tuple_(request.c.created_at, request.c.id) < last_position(request.c.created_at))
    return lines(page.order_by(*order).limit(limit), *order)


# ARRAY(…) keeps the plan, as in `runs.READ`.
_ids = select(func.unnest(bindparam("ids", type_=ARRAY(Uuid)))).scalar_subquery()
_LINES = lines(select(request.c.id).where(request.c.id == any_(func.array(_ids))))


@cache
def _found(
    kind: RequestKind, names: frozenset[str], order: RequestOrder, limit: int, *, later: bool
) -> Select[Any]:
    page = _page(kind, names, order, limit, later=later)
    return lines(page, *request_filters.order_by(kind, order))


@cache
def _found_for(
    kind: RequestKind, names: frozenset[str], order: RequestOrder, limit: int, *, later: bool
) -> Select[Any]:
    page = _page(kind, names, order, limit, later=later).cte("page").prefix_with("MATERIALIZED")
    return (
        select(*request.c["id", "approvers", "channel_id"], _is_own(kind).label("own"), page.c.cut)
        .join(page, page.c.id == request.c.id)
        .outerjoin(decision, decision.c.request_id == request.c.id)
        .order_by(*request_filters.order_by(kind, order))
    )


def _page(
    kind: RequestKind, names: frozenset[str], order: RequestOrder, limit: int, *, later: bool
) -> Select[Any]:
    """Ids in order. Whether many or few match is not known in advance, so a walk through the latest comes first.

    If many match, the page has what the walk found, which may be less than `limit`. What few have is asked of its own
    index, in the same statement; PostgreSQL does not begin that part otherwise.
    """
    if kind is not RequestKind.WAITING and order in (RequestOrder.DEADLINE, RequestOrder.RISK):
        return _sorted_page(kind, names, order, limit, later=later)
    by = request_filters.order_by(kind, order)
    after = [request_filters.comes_after(kind, order)] if later else []
    indexed = _indexed(kind, names, order, limit, after)
    if not _walks(kind, names, order):
        return indexed.add_columns(false().label("cut"))
    walked, near = _walked(kind, names, order, limit, after), _near(kind, names, order, limit, after)
    number = select(func.count()).select_from(near).scalar_subquery()
    has_more = select(func.count()).select_from(walked).scalar_subquery() == _reach(limit)
    is_rare = number < _enough(limit)
    far = indexed.subquery("far")
    both = union(select(near.c.id), select(far.c.id).where(is_rare, has_more)).subquery("both")
    cut = and_(number.between(_enough(limit), limit - 1), has_more).label("cut")
    return select(request.c.id, cut).join(both, both.c.id == request.c.id).order_by(*by).limit(limit)


def _walks(kind: RequestKind, names: frozenset[str], order: RequestOrder) -> bool:
    filters = names - _RANGE
    # The index of words gives the newest, so a walk from the other end would find what that leaves out.
    walked = (RequestOrder.NEWEST,) if "words" in names else (RequestOrder.NEWEST, RequestOrder.OLDEST)
    if not filters or filters & request_filters.BY_IDS or order not in walked:
        return False
    return kind is not RequestKind.DECIDED or filters not in _OWN_INDEX


def _reach(limit: int) -> int:
    return max(WALKED, 4 * limit)


def _enough(limit: int) -> int:
    """Requests on a walk that show that many match."""
    return min(limit, _reach(limit) // 50)


def _walked(
    kind: RequestKind,
    names: frozenset[str],
    order: RequestOrder,
    limit: int,
    after: Sequence[ColumnElement[bool]],
) -> Subquery:
    return (
        select(request.c.id)
        .where(*request_filters.range_of(kind, names), *after)
        .order_by(*request_filters.order_by(kind, order))
        .limit(_reach(limit))
        .subquery("walked")
    )


def _near(
    kind: RequestKind,
    names: frozenset[str],
    order: RequestOrder,
    limit: int,
    after: Sequence[ColumnElement[bool]],
) -> CTE:
    """In the order of the walk, so that PostgreSQL stops when the page is full."""
    walked = _walked(kind, names, order, limit, after)
    conditions = [*request_filters.one_by_one(names), *_of_person(names)]
    matches = (
        select(request.c.id).where(request.c.id == walked.c.id, *conditions).offset(0).lateral("matches")
    )
    found = select(matches.c.id).select_from(walked.join(matches, true())).limit(limit)
    return found.cte("near").prefix_with("MATERIALIZED")


def _sorted_page(
    kind: RequestKind, names: frozenset[str], order: RequestOrder, limit: int, *, later: bool
) -> Select[Any]:
    """Among the latest."""
    latest = _page(kind, names, RequestOrder.NEWEST, MAX_SORTED, later=False)
    ids = latest.cte("latest").prefix_with("MATERIALIZED")
    after = [request_filters.comes_after(kind, order)] if later else []
    by = request_filters.order_by(kind, order)
    return (
        select(request.c.id, false().label("cut"))
        .join(ids, ids.c.id == request.c.id)
        .where(*after)
        .order_by(*by)
        .limit(limit)
    )


def _indexed(
    kind: RequestKind,
    names: frozenset[str],
    order: RequestOrder,
    limit: int,
    after: Sequence[ColumnElement[bool]],
) -> Select[Any]:
    by = request_filters.order_by(kind, order)
    who = next((each for each in ("person", "decider") if f"{each}_user" in names), None)
    found = request_filters.through_index(kind, names - {"decider_user"} if who == "decider" else names)
    page = select(request.c.id).where(*found, *after).order_by(*by).limit(limit)
    if who is None:
        return page
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
    return select(request.c.id).where(request.c.id.in_(select(together.c.id))).order_by(*by).limit(limit)


def _of_person(names: frozenset[str]) -> list[ColumnElement[bool]]:
    if "person_user" not in names:
        return []
    person_team: ColumnElement[str] = bindparam("person_team")
    person_user: ColumnElement[str] = bindparam("person_user")
    asked = and_(request.c.requester_team_id == person_team, request.c.requester_user_id == person_user)
    last = and_(decision.c.team_id == person_team, decision.c.user_id == person_user)
    decided = exists().where(
        decision.c.request_id == request.c.id, or_(last, approved_by(person_team, person_user))
    )
    return [or_(asked, decided)]


@dataclass(frozen=True, slots=True)
class AudienceCount:
    """``own``: the person asked or decided them. ``cut``: there are more, though fewer than asked for were counted."""

    approvers: tuple[str, ...]
    channel_id: str
    own: bool
    cut: bool
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
    """Of a request with its decision joined: for a subquery, PostgreSQL may read all decisions first."""
    asked = _is_person(request.c.requester_team_id, request.c.requester_user_id)
    if kind is RequestKind.WAITING:
        return asked
    decided = _is_person(decision.c.team_id, decision.c.user_id)
    return or_(asked, decided, func.coalesce(approved_by(team, bindparam("user")), false()))


@cache
def _counts(kind: RequestKind, names: frozenset[str], limit: int) -> Select[Any]:
    some = _found_for(kind, names, RequestOrder.NEWEST, limit, later=False).subquery("some")
    audience = some.c["approvers", "channel_id", "own", "cut"]
    return select(*audience, func.count().label("number")).group_by(*audience)


@cache
def _choices(kind: RequestKind, limit: int) -> Select[Any]:
    some = (
        select(
            *request.c["approvers", "channel_id", "agent", "checkpoint_id", "requester_user_id"],
            decision.c.user_id.label("decider"),
            _is_own(kind).label("own"),
        )
        .outerjoin(decision, decision.c.request_id == request.c.id)
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

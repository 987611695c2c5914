"""Counts by audience: the database does not know who may see a request."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, distinct, exists, false, func, or_, select

from agent.database.transaction import Connection, fetch
from agent.domain.request_filter import RequestFilter, RequestKind, RequestOrder
from agent.store.rows import row_as
from agent.store.tables import decision
from agent.store.views import request_filters
from agent.store.views.request_lines import request, team
from agent.store.views.request_parts import approved_by
from signoff.values import Person


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
    """User ids."""


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
    some = (
        select(
            *request.c["approvers", "channel_id", "agent", "checkpoint_id", "requester_user_id"],
            _is_own(kind).label("own"),
        )
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
    ).group_by(*audience)

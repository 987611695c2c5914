"""How many requests a filter finds, and what there is to filter by, in groups of those who may see them.

Who may see a request is not known to the database, so nothing is counted or named here without its audience.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, exists, false, func, or_, select

from agent.database.transaction import Connection, fetch
from agent.domain.request_filter import RequestFilter, RequestKind
from agent.store.rows import row_as
from agent.store.tables import decision
from agent.store.views import request_filters
from agent.store.views.request_lines import limit, request, team
from agent.store.views.waiting_lists import waits_for_person
from signoff.values import Person


@dataclass(frozen=True, slots=True)
class AudienceCount:
    """So many requests of one audience.

    ``own``: the person asked or decided them. ``open_to_vote``: they wait, and the person has neither voted on them
    nor is excluded.
    """

    approvers: tuple[str, ...]
    channel_id: str
    own: bool
    open_to_vote: bool
    number: int


@dataclass(frozen=True, slots=True)
class FilterChoice:
    """What some requests of one audience have in common, for filters to offer."""

    approvers: tuple[str, ...]
    channel_id: str
    own: bool
    agent: str
    checkpoint_id: str
    requester: Person | None


async def audience_counts(
    connection: Connection, person: Person, kind: RequestKind, wanted: RequestFilter, at_most: int
) -> list[AudienceCount]:
    """How many requests a filter finds, by audience; of more than ``at_most`` so many are counted."""
    given = request_filters.values(wanted)
    of_whom = (
        {"person_team": wanted.person.team_id, "person_user": wanted.person.user_id} if wanted.person else {}
    )
    statement = _counts(kind, frozenset(given), of_person=wanted.person is not None)
    whose = {"team": person.team_id, "user": person.user_id}
    rows = await fetch(connection, statement, limit=at_most, **whose, **of_whom, **given)
    return [row_as(AudienceCount, row) for row in rows]


async def filter_choices(
    connection: Connection, person: Person, kind: RequestKind, among: int
) -> list[FilterChoice]:
    """What the latest requests of a kind can be filtered by."""
    rows = await fetch(connection, _choices(kind), team=person.team_id, user=person.user_id, limit=among)
    return [row_as(FilterChoice, row) for row in rows]


def _is_person(team_id: ColumnElement[Any], user_id: ColumnElement[Any]) -> ColumnElement[bool]:
    return func.coalesce(and_(team_id == team, user_id == bindparam("user")), false())


def _is_own() -> ColumnElement[bool]:
    decided = exists().where(
        decision.c.request_id == request.c.id, _is_person(decision.c.team_id, decision.c.user_id)
    )
    return or_(_is_person(request.c.requester_team_id, request.c.requester_user_id), decided)


@cache
def _counts(kind: RequestKind, names: frozenset[str], *, of_person: bool) -> Select[Any]:
    open_to_vote = waits_for_person(request) if kind is RequestKind.WAITING else false()
    found = select(
        request.c.approvers, request.c.channel_id, _is_own().label("own"), open_to_vote.label("open_to_vote")
    ).where(*request_filters.conditions(kind, names))
    if of_person:
        asked = and_(
            request.c.requester_team_id == bindparam("person_team"),
            request.c.requester_user_id == bindparam("person_user"),
        )
        decided = exists().where(
            decision.c.request_id == request.c.id,
            decision.c.team_id == bindparam("person_team"),
            decision.c.user_id == bindparam("person_user"),
        )
        found = found.where(or_(asked, decided))
    some = found.limit(limit).subquery("some")
    return select(*some.c, func.count().label("number")).group_by(*some.c)


@cache
def _choices(kind: RequestKind) -> Select[Any]:
    time = request_filters.time_of(kind)
    some = (
        select(
            *request.c["approvers", "channel_id", "agent", "checkpoint_id"],
            *request.c["requester_team_id", "requester_user_id"],
            _is_own().label("own"),
        )
        .where(*request_filters.conditions(kind, frozenset()))
        .order_by(time.desc(), request.c.id.desc())
        .limit(limit)
        .subquery("some")
    )
    return select(some).distinct()

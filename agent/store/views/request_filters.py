"""Filters and orders as parts of statements, composed once per set of names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Select,
    Text,
    and_,
    any_,
    bindparam,
    cast,
    exists,
    func,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import TSQUERY

from agent.domain.request import RequestStatus
from agent.domain.request_list import RequestFilter, RequestKind, RequestOrder, search_marks
from agent.domain.run import CallState
from agent.store.tables import (
    approval_request,
    card_place,
    decision,
    execution,
    request_search,
    risk,
    tool_call,
    vote,
)
from agent.store.views.request_lines import of_team, request
from agent.store.views.request_rows import approved_by, asked_position, last_position

EVERYTHING = RequestFilter()

MAX_FOUND = 10_000
"""The newest found by words."""

MARKED = frozenset({"checkpoint", "channel", "risk"})
"""Filters that marks beside the stored words of a request answer."""

BY_IDS = frozenset({"first_id", "together", "form", "in_doubt"})
"""Filters whose requests are looked up first, because they are few."""

_OF_KIND: Mapping[RequestKind, ColumnElement[bool]] = {
    RequestKind.WAITING: and_(request.c.status == RequestStatus.WAITING, of_team),
    RequestKind.DECIDED: and_(request.c.decided_at.is_not(None), of_team),
    RequestKind.ANY: of_team,
}


def _one_of(found: Select[tuple[UUID]]) -> ColumnElement[bool]:
    """PostgreSQL takes an array for short, so it looks these up instead of walking through all others."""
    return request.c.id == any_(func.array(found.scalar_subquery()))


def _matches(name: str) -> ColumnElement[bool]:
    return request_search.c.words.op("@@")(cast(bindparam(name, type_=Text), TSQUERY))


_HAVE_WORDS = select(request_search.c.request_id).where(_matches("words"))
_decider = (bindparam("decider_team", type_=Text), bindparam("decider_user", type_=Text))
_voter = (bindparam("voter_team", type_=Text), bindparam("voter_user", type_=Text))


def _of_form(name: str, *voted: ColumnElement[bool]) -> ColumnElement[bool]:
    return _one_of(select(vote.c.request_id).where(vote.c.together == bindparam(name), *voted))


_like = approval_request.alias("like")
_CONDITIONS: Mapping[str, ColumnElement[bool]] = {
    "agent": request.c.agent == bindparam("agent"),
    "channel": request.c.channel_id == bindparam("channel"),
    "checkpoint": request.c.checkpoint_id == bindparam("checkpoint"),
    "decider_user": exists()
    .where(
        decision.c.request_id == request.c.id,
        or_(
            and_(decision.c.team_id == _decider[0], decision.c.user_id == _decider[1]),
            approved_by(*_decider),
        ),
    )
    .correlate(request),
    "ends_before": request.c.expires_at < bindparam("ends_before"),
    "folded": exists().where(card_place.c.request_id == request.c.id, card_place.c.folded)
    == bindparam("folded", type_=Boolean),
    "group": exists().where(
        card_place.c.request_id == request.c.id, card_place.c.digest == bindparam("group", type_=Text)
    ),
    "together": _of_form("together"),
    "form": _of_form("form", vote.c.team_id == _voter[0], vote.c.user_id == _voter[1]),
    "first_id": _one_of(
        select(_like.c.id)
        .where(_like.c.id.between(bindparam("first_id"), bindparam("last_id")))
        .where(
            func.replace(cast(_like.c.id, Text), "-", "").regexp_match(bindparam("id_pattern", type_=Text))
        )
        .order_by(_like.c.id.desc())
        .limit(MAX_FOUND)
    ),
    "in_doubt": _one_of(
        select(execution.c.request_id)
        .join(tool_call, tool_call.c.id == execution.c.call_id)
        .where(tool_call.c.state == CallState.IN_DOUBT)
    ),
    "requester_user": and_(
        request.c.requester_team_id == bindparam("requester_team"),
        request.c.requester_user_id == bindparam("requester_user"),
    ),
    "principal": and_(request.c.principal == bindparam("principal"), request.c.run_id.is_(None)),
    "risk": request.c.risk == bindparam("risk", type_=risk),
    "status": request.c.status == bindparam("status"),
    # Newest first and limited, so that very common words end early.
    "words": _one_of(_HAVE_WORDS.order_by(request_search.c.request_id.desc()).limit(MAX_FOUND)),
}
_HAS_WORDS = exists(_HAVE_WORDS.where(request_search.c.request_id == request.c.id).correlate(request))
_MARKED = select(request_search.c.request_id).where(_matches("marks"))
# A typed word's requests are limited; those of a checkpoint, channel or risk are all listed.
_IS_MARKED = {
    True: _one_of(_MARKED.order_by(request_search.c.request_id.desc()).limit(MAX_FOUND)),
    False: _one_of(_MARKED),
}


def values(wanted: RequestFilter) -> dict[str, Any]:
    """Return the parameters of a filter's statement; what the filter leaves open is left out."""
    asked, person, decider, ids = wanted.requester, wanted.person, wanted.decider, wanted.ids
    voter = wanted.voter if wanted.together else None
    given = {
        "agent": wanted.agent or None,
        "channel": wanted.channel_id or None,
        "checkpoint": wanted.checkpoint_id or None,
        "decider_team": decider.team_id if decider else None,
        "decider_user": decider.user_id if decider else None,
        "ends_before": wanted.ends_before,
        "first_id": ids.first if ids else None,
        "last_id": ids.last if ids else None,
        "id_pattern": ids.pattern if ids else None,
        "folded": wanted.folded,
        "form": wanted.together if voter else None,
        "group": wanted.group or None,
        "in_doubt": wanted.in_doubt or None,
        "person_team": person.team_id if person else None,
        "person_user": person.user_id if person else None,
        "principal": f"key:{wanted.key}" if wanted.key else None,
        "requester_team": asked.team_id if asked else None,
        "requester_user": asked.user_id if asked else None,
        "risk": wanted.risk,
        "since": wanted.since,
        "status": wanted.status,
        "together": wanted.together if voter is None else None,
        "until": wanted.until,
        "voter_team": voter.team_id if voter else None,
        "voter_user": voter.user_id if voter else None,
        "words": " & ".join(typed := [_any_of(word, wanted) for word in wanted.words if word.isalnum()])
        or None,
    }
    marks = search_marks(wanted.checkpoint_id, wanted.channel_id, wanted.risk)
    given["marks"] = " & ".join([*typed, *map(_quoted, marks)]) or None
    return {name: value for name, value in given.items() if value is not None}


def _quoted(mark: str) -> str:
    """A lexeme of a tsquery."""
    return "'" + mark.replace("\\", "\\\\").replace("'", "''") + "'"


def _any_of(word: str, wanted: RequestFilter) -> str:
    """The word's beginning, or the id of somebody whom it names, which is among a request's words, too."""
    ids = [user_id.casefold() for name, user_id in wanted.named if name == word and user_id.isalnum()]
    either = " | ".join((f"'{word}':*", *(f"'{each}'" for each in ids)))
    return f"({either})"


def conditions(kind: RequestKind, names: frozenset[str]) -> list[ColumnElement[bool]]:
    """Return the conditions of a list of this kind for the filters that are named."""
    return [*range_of(kind, names), *(each for name, each in _CONDITIONS.items() if name in names)]


def range_of(kind: RequestKind, names: frozenset[str]) -> list[ColumnElement[bool]]:
    """Of those conditions, the ones that the index has in which the kind's requests are in order of time."""
    found = [_OF_KIND[kind]]
    if "since" in names:
        found.append(time_of(kind) >= bindparam("since"))
    if "until" in names:
        found.append(time_of(kind) < bindparam("until"))
    return found


def one_by_one(names: frozenset[str]) -> list[ColumnElement[bool]]:
    """The conditions beside the range, to look at one request after the other."""
    found = [each for name, each in _CONDITIONS.items() if name in names - {"words"}]
    return [*found, _HAS_WORDS] if "words" in names else found


def through_index(kind: RequestKind, names: frozenset[str]) -> list[ColumnElement[bool]]:
    """All conditions, with those that words answer asked of the index of words."""
    if not names & MARKED:
        return conditions(kind, names)
    return [*conditions(kind, names - {"words"}), _IS_MARKED["words" in names]]


def order_by(kind: RequestKind, order: RequestOrder) -> tuple[ColumnElement[Any], ...]:
    """Return the columns to sort by: the order's own, then the id, in the same direction."""
    if order is RequestOrder.ASKED:
        return asked_position(request)
    column, down = _sorted_by(kind, order)
    return (column.desc(), request.c.id.desc()) if down else (column.asc(), request.c.id.asc())


def comes_after(kind: RequestKind, order: RequestOrder) -> ColumnElement[bool]:
    """Whether a row follows the request ``:after``."""
    if order is RequestOrder.ASKED:
        before = approval_request.alias("before")
        place = select(*asked_position(before)).where(before.c.id == bindparam("after")).scalar_subquery()
        return tuple_(*asked_position(request)) > place
    column, down = _sorted_by(kind, order)
    position, last = tuple_(column, request.c.id), last_position(column)
    return position < last if down else position > last


def time_of(kind: RequestKind) -> Column[Any]:
    """Return the time that dates a list's requests: of the decision if decided, else of creation."""
    return request.c.decided_at if kind is RequestKind.DECIDED else request.c.created_at


def _sorted_by(kind: RequestKind, order: RequestOrder) -> tuple[Column[Any], bool]:
    """True: the column and the id are descending."""
    time = time_of(kind)
    match order:
        case RequestOrder.OLDEST:
            return time, False
        case RequestOrder.NEWEST:
            return time, True
        case RequestOrder.DEADLINE:
            return request.c.expires_at, False
        case _:
            return request.c.risk, True

"""Parts of statements about requests that several views share."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    FromClause,
    Text,
    Tuple,
    Uuid,
    and_,
    bindparam,
    cast,
    func,
    literal_column,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by

from agent.domain.request import Verdict
from agent.domain.run import AnswerKind, CallExecutor
from agent.store.tables import approval_request, decision, vote

EMPTY_LIST: ColumnElement[Any] = literal_column("'[]'::json")
_NOBODY: ColumnElement[Any] = literal_column("'[]'::jsonb")


def present_revision(request: FromClause, revision: FromClause) -> ColumnElement[bool]:
    return and_(revision.c.request_id == request.c.id, revision.c.n == request.c.revision)


def channel_card(request: FromClause, place: FromClause) -> ColumnElement[bool]:
    return and_(place.c.request_id == request.c.id, place.c.surface == "channel")


def is_live(ballot: FromClause, request: FromClause) -> ColumnElement[bool]:
    """The vote is on the current revision and not superseded."""
    return and_(
        ballot.c.request_id == request.c.id,
        ballot.c.revision == request.c.revision,
        ballot.c.superseded_by.is_(None),
    )


def is_stopped(call: FromClause) -> ColumnElement[bool]:
    """A run's call was withdrawn, or no program could begin it any more. What has an attempt has begun."""
    unclaimed = and_(
        call.c.run_id.is_not(None),
        call.c.executor == CallExecutor.PROGRAM,
        call.c.answer_kind.in_([AnswerKind.ERROR, AnswerKind.NOTHING_DONE]),
    )
    return func.coalesce(or_(call.c.answer_kind == AnswerKind.WITHDRAWN, unclaimed), False)


def approvals(request: FromClause) -> ColumnElement[int]:
    ballot = vote.alias("ballot")
    approving = ballot.c.verdict == Verdict.APPROVE
    return (
        select(func.count()).where(is_live(ballot, request), approving).correlate(request).scalar_subquery()
    )


def approved_by(team: ColumnElement[str], user: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether this person's approval counted beside others."""
    person = func.jsonb_build_array(func.jsonb_build_array(cast(team, Text), cast(user, Text)))
    return and_(decision.c.approved_by != _NOBODY, decision.c.approved_by.contains(person))


def notes(request: FromClause) -> ColumnElement[Any]:
    """Notes, oldest first; NULL for none."""
    ballot = vote.alias("ballot")
    words = func.json_agg(aggregate_order_by(ballot.c.reason, ballot.c.id))
    found = select(words).where(
        is_live(ballot, request), ballot.c.verdict == Verdict.APPROVE, func.btrim(ballot.c.reason) != ""
    )
    return found.correlate(request).scalar_subquery()


def voters(request: FromClause) -> ColumnElement[Any]:
    """Voters as ``[team, user]``."""
    ballot = vote.alias("ballot")
    people = func.json_agg(func.json_build_array(ballot.c.team_id, ballot.c.user_id))
    found = select(func.coalesce(people, EMPTY_LIST)).where(is_live(ballot, request))
    return found.correlate(request).scalar_subquery()


def last_position(time: Column[Any]) -> Tuple:
    """The request ``:after``, to compare with index columns."""
    last = approval_request.alias("last")
    its_time = select(last.c[time.name]).where(last.c.id == bindparam("after")).scalar_subquery()
    return tuple_(its_time, bindparam("after", type_=Uuid))

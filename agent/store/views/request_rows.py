"""The columns of a whole request, and the rows read as a `RequestView`."""

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
    any_,
    bindparam,
    case,
    cast,
    column,
    func,
    literal,
    literal_column,
    or_,
    select,
    table,
    true,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY, aggregate_order_by

from agent.domain.pause import EVERYTHING
from agent.domain.request import RequestStatus, Verdict
from agent.domain.run import AnswerKind, CallExecutor, CallState
from agent.domain.tally import FOR
from agent.store import tables
from agent.store.tables import (
    agent_run,
    approval_grant,
    approval_request,
    audit_head,
    decision,
    request_revision,
    settlement,
    tool_call,
    vote,
)

EMPTY_LIST: ColumnElement[Any] = literal_column("'[]'::json")
_NOBODY: ColumnElement[Any] = literal_column("'[]'::jsonb")


def present_revision(request: FromClause, revision: FromClause) -> ColumnElement[bool]:
    """The condition that a revision is its request's current one."""
    return and_(revision.c.request_id == request.c.id, revision.c.n == request.c.revision)


def message_ts(place: FromClause) -> ColumnElement[str]:
    """Return the ``ts`` of the message that shows a request: its card's, or that of its group."""
    group = tables.request_group
    of_group = select(group.c.ts).where(group.c.name == place.c.digest).correlate(place).scalar_subquery()
    return func.coalesce(place.c.ts, of_group).label("ts")


def channel_card(request: FromClause, place: FromClause) -> ColumnElement[bool]:
    """The condition that a card's place is the request's card in its channel, not a person's own."""
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
    """Return how many votes approve the request's current revision, or give the most frequent answer."""
    ballot = vote.alias("ballot")
    alike = (
        select(func.count().label("number"))
        .select_from(ballot.outerjoin(tables.answer, tables.answer.c.vote_id == ballot.c.id))
        .where(is_live(ballot, request), ballot.c.verdict.in_(sorted(FOR)))
        .group_by(tables.answer.c.digest)
        .correlate(request)
        .subquery("alike")
    )
    return select(func.coalesce(func.max(alike.c.number), 0)).scalar_subquery()


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


def others_in_form(ballot: FromClause) -> ColumnElement[int]:
    """Return on how many other requests the form of a vote cast votes of the same person."""
    other = vote.alias("other")
    # NULL is not looked up.
    by_form = and_(
        other.c.together == ballot.c.together,
        other.c.team_id == ballot.c.team_id,
        other.c.user_id == ballot.c.user_id,
        other.c.request_id != ballot.c.request_id,
    )
    found = select(func.count(other.c.request_id.distinct())).where(by_form)
    return found.correlate(ballot).scalar_subquery()


def asked_position(request: FromClause) -> tuple[ColumnElement[Any], ...]:
    """Return the columns that sort a turn or batch as its requests were asked.

    A run's calls have their place in the model's turn; those of a program, which have none, come as they were sent.
    """
    first: ColumnElement[int] = literal_column("0")
    of_call = (
        func.coalesce(
            select(place).where(tool_call.c.id == request.c.call_id).correlate(request).scalar_subquery(),
            first,
        )
        for place in (tool_call.c.turn, tool_call.c.index)
    )
    return (*of_call, request.c.id)


def last_position(time: Column[Any]) -> Tuple:
    """The request ``:after``, to compare with index columns."""
    last = approval_request.alias("last")
    its_time = select(last.c[time.name]).where(last.c.id == bindparam("after")).scalar_subquery()
    return tuple_(its_time, bindparam("after", type_=Uuid))


_request = tables.approval_request.alias("request")
_revision = request_revision.alias("revision")
_place = tables.card_place.alias("place")
_repeat_call = tool_call.alias("repeat_call")
_repeat = tables.approval_request.alias("repeat")
_repeat_place = tables.card_place.alias("repeat_place")
_execution = (
    select(tables.execution)
    .where(tables.execution.c.request_id == _request.c.id)
    .order_by(tables.execution.c.attempt.desc())
    .limit(1)
    .lateral("execution")
)
_pause = (
    select(tables.pause.c.by, tables.pause.c.scope)
    .where(
        or_(
            tables.pause.c.scope == EVERYTHING,
            tables.pause.c.scope == _request.c.agent,
            tables.pause.c.scope == any_(agent_run.c.ancestor_agents),
        )
    )
    .order_by(tables.pause.c.scope)
    .limit(1)
    .lateral("pause")
)
_earlier, _earlier_revision = (
    tables.approval_request.alias("earlier"),
    request_revision.alias("earlier_revision"),
)
_earlier_facts = select(_earlier_revision.c.facts).join(
    _earlier, present_revision(_earlier, _earlier_revision)
)
_previous_facts = _earlier_facts.where(
    _earlier.c.call_id == _request.c.call_id, _earlier.c.ask_no == _request.c.ask_no - 1
).scalar_subquery()
_ballot = tables.vote.alias("ballot")
_live = (
    select(
        _ballot.c.id,
        _ballot.c.team_id.label("team"),
        _ballot.c.user_id.label("user"),
        _ballot.c.verdict,
        _ballot.c.reason,
        _ballot.c.created_at.label("at"),
        _ballot.c.together,
        others_in_form(_ballot).label("others"),
        func.convert_from(tables.answer.c.value, "UTF8").label("answer"),
        func.encode(tables.answer.c.digest, "hex").label("answer_digest"),
        tables.answer.c.erased_at.label("answer_erased_at"),
    )
    .select_from(_ballot.outerjoin(tables.answer, tables.answer.c.vote_id == _ballot.c.id))
    .where(is_live(_ballot, _request))
    .correlate(_request)
    .subquery("live")
)
_votes = select(
    func.coalesce(func.json_agg(aggregate_order_by(_live.table_valued(), _live.c.id)), EMPTY_LIST)
)
_retry_voters = (
    select(
        func.coalesce(
            func.json_agg(
                aggregate_order_by(
                    func.json_build_array(tables.retry_vote.c.team_id, tables.retry_vote.c.user_id),
                    tables.retry_vote.c.created_at,
                )
            ),
            EMPTY_LIST,
        )
    )
    .where(tables.retry_vote.c.execution_id == _execution.c.id)
    .correlate(_execution)
    .scalar_subquery()
)
_no, _no_place = decision.alias("no"), tables.card_place.alias("no_place")
_of_rejection = {
    "id": _no.c.request_id,
    "team": _no.c.team_id,
    "user": _no.c.user_id,
    "reason": _no.c.reason,
    "at": _no.c.decided_at,
    "channel": _no_place.c.channel_id,
    "ts": _no_place.c.ts,
}
_rejected = (
    select(
        func.json_build_object(
            *(part for name in _of_rejection for part in (literal(name), _of_rejection[name]))
        )
    )
    .select_from(
        _no.outerjoin(
            _no_place, and_(_no_place.c.request_id == _no.c.request_id, _no_place.c.surface == "channel")
        )
    )
    .where(_no.c.request_id == _request.c.rejected_before)
    .correlate(_request)
    .scalar_subquery()
)
_key = table("api_key", column("id"), column("agent"))
_names_agent = func.coalesce(
    select(_key.c.agent.is_(None))
    .where(_key.c.id == _request.c.api_key_id, _request.c.run_id.is_(None))
    .correlate(_request)
    .scalar_subquery(),
    False,
)
_of_program = _request.c.run_id.is_(None)
# A void question leaves its name to the one that is asked next.
_named = case(
    (
        and_(_of_program, _request.c.voided_at.is_not(None)),
        _request.c.client_id + literal("#") + cast(_request.c.ask_no, Text),
    ),
    else_=_request.c.client_id,
)
_for_others = and_(~_of_program, tool_call.c.executor == CallExecutor.PROGRAM)
_UNREAD = ("request_id", "n", "arguments", "author", "created_at", "signature_digest")
_VIEW = (
    select(
        *(column for column in _request.c if column.name not in {"client_id", "rule_digest"}),
        tables.rule.c.content.label("policy"),
        _named.label("client_id"),
        *(column for column in _revision.c if column.name not in _UNREAD),
        _revision.c.created_at.label("facts_at"),
        audit_head.c.seq,
        agent_run.c.ancestor_agents.label("above"),
        agent_run.c.label.label("label"),
        agent_run.c.principal.label("run_principal"),
        _names_agent.label("names_agent"),
        agent_run.c.channel_id.label("run_channel_id"),
        agent_run.c.thread_ts.label("run_thread_ts"),
        _place.c.nonce,
        _place.c.ts,
        decision.c.outcome,
        decision.c.team_id.label("decided_team_id"),
        decision.c.user_id.label("decided_user_id"),
        decision.c.reason.label("decided_reason"),
        decision.c.approved_by,
        _repeat_call.c.id.is_not(None).label("repeated"),
        _repeat.c.id.label("again_id"),
        _repeat_place.c.channel_id.label("again_channel"),
        _repeat_place.c.ts.label("again_ts"),
        and_(_request.c.status == RequestStatus.APPROVED, is_stopped(tool_call)).label("stopped"),
        _execution.c.id.label("execution_id"),
        _execution.c.status.label("execution_status"),
        *_execution.c["attempt", "started_at", "finished_at", "error", "result"],
        settlement.c.team_id.label("settled_by_team_id"),
        settlement.c.user_id.label("settled_by_user_id"),
        settlement.c.verdict.label("settled_as"),
        _retry_voters.label("retry_voters"),
        case((tool_call.c.state == CallState.READY, tool_call.c.retry_at)).label("retry_at"),
        func.coalesce(tool_call.c.answer_kind == AnswerKind.NOTHING_DONE, False).label("nothing_done"),
        func.coalesce(tool_call.c.answer_kind == AnswerKind.NOT_STORED, False).label("not_stored"),
        *tool_call.c["lapse_at", "handed_over_at"],
        func.coalesce(tool_call.c.lapsed_at, case((_of_program, _request.c.voided_at))).label("lapsed_at"),
        case((_for_others, func.coalesce(tool_call.c.executor_key, "*"))).label("executor"),
        _pause.c.by.label("paused_by"),
        _pause.c.scope.label("paused_scope"),
        _previous_facts.label("previous_facts"),
        _votes.scalar_subquery().label("votes"),
        _rejected.label("rejection"),
        *approval_grant.c["uses", "max_uses", "used_sum", "max_sum", "until"],
        *approval_grant.c["ended_at", "ended_by", "ended_because"],
    )
    .select_from(_request)
    .join(_revision, present_revision(_request, _revision))
    .join(tables.rule, tables.rule.c.digest == _request.c.rule_digest)
    .outerjoin(audit_head, audit_head.c.subject == literal("request:") + cast(_request.c.id, Text))
    .outerjoin(agent_run, agent_run.c.id == _request.c.run_id)
    .outerjoin(tool_call, and_(tool_call.c.id == _request.c.call_id, tool_call.c.ask_no == _request.c.ask_no))
    .outerjoin(_place, channel_card(_request, _place))
    .outerjoin(approval_grant, approval_grant.c.request_id == _request.c.id)
    .outerjoin(decision, decision.c.request_id == _request.c.id)
    .outerjoin(_execution, true())
    .outerjoin(settlement, settlement.c.execution_id == _execution.c.id)
    .outerjoin(_pause, true())
    .outerjoin(
        _repeat_call,
        and_(_repeat_call.c.repeats == _request.c.call_id, _request.c.status == RequestStatus.EXPIRED),
    )
    .outerjoin(
        _repeat, and_(_repeat.c.call_id == _repeat_call.c.id, _repeat.c.ask_no == _repeat_call.c.ask_no)
    )
    .outerjoin(_repeat_place, channel_card(_repeat, _repeat_place))
)
_ids = bindparam("ids", type_=ARRAY(Uuid))

ONE = _VIEW.where(_request.c.id == bindparam("id"))
MANY = _VIEW.where(_request.c.id == any_(_ids))
# Planning these joins takes longer than running them for few requests. PostgreSQL keeps a plan only if it expects it
# to be as good as one for the actual values: for an array, only if it cannot know its length, hence ARRAY. OFFSET 0
# keeps it from joining whole tables. A kept plan is only as good as its statistics, so many requests get a new one.
_asked = (
    func.unnest(func.array(select(func.unnest(_ids)).scalar_subquery()))
    .table_valued("id")
    .render_derived(name="asked")
)
_each = _VIEW.where(_request.c.id == _asked.c.id).offset(0).lateral("each")
FEW = select(_each).select_from(_asked.join(_each, true()))

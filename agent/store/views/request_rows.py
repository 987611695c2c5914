"""The columns of a whole request, and the rows read as a `RequestView`."""

from __future__ import annotations

from sqlalchemy import (
    Text,
    Uuid,
    and_,
    any_,
    bindparam,
    case,
    cast,
    column,
    func,
    literal,
    or_,
    select,
    table,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, aggregate_order_by

from agent.domain.pause import EVERYTHING
from agent.domain.request import RequestStatus
from agent.domain.run import AnswerKind, CallExecutor, CallState
from agent.store import tables
from agent.store.tables import (
    agent_run,
    approval_grant,
    audit_head,
    decision,
    request_revision,
    settlement,
    tool_call,
)
from agent.store.views.request_parts import (
    EMPTY_LIST,
    channel_card,
    is_live,
    is_stopped,
    present_revision,
)

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
    )
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
_VIEW = (
    select(
        *(column for column in _request.c if column.name != "client_id"),
        _named.label("client_id"),
        *_revision.c[
            "tool", "tool_version", "action", "digest", "facts", "description", "rationale", "facts_source"
        ],
        _revision.c.created_at.label("facts_at"),
        *_revision.c["context", "changes", "erased_at", "editor_team_id", "editor_user_id"],
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

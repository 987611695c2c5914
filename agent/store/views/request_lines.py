"""The lines of lists, looked up for the requests of one page."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pydantic_core import from_json
from sqlalchemy import ColumnElement, Row, Select, SelectBase, Text, and_, bindparam, case, func, select

from agent.domain.answers import in_order
from agent.domain.grants import GRANT
from agent.domain.request import ExecutionStatus, RequestStatus, approval_state
from agent.domain.request_list import HistoryLine, RequestLine
from agent.domain.request_view import Behalf
from agent.domain.run import AnswerKind, CallState
from agent.store import exclusions
from agent.store.rows import people, person, row_as
from agent.store.tables import (
    agent_run,
    answer,
    approval_request,
    card_place,
    decision,
    execution,
    request_revision,
    settlement,
    tool_call,
    vote,
)
from agent.store.views.request_rows import (
    approvals,
    channel_card,
    is_stopped,
    message_ts,
    others_in_form,
    present_revision,
    voters,
)

request, _revision = approval_request.alias("request"), request_revision.alias("revision")
_place = card_place.alias("place")
team = bindparam("team", type_=Text)
of_team = request.c.team_id == team
_grant_requester = func.jsonb_extract_path_text(_revision.c.arguments, "requester")
_attempt = (
    select(func.json_build_array(execution.c.status, settlement.c.verdict))
    .outerjoin(settlement, settlement.c.execution_id == execution.c.id)
    .where(execution.c.request_id == request.c.id)
    .order_by(execution.c.attempt.desc())
    .limit(1)
    .correlate(request)
    .scalar_subquery()
)
_retrying = and_(tool_call.c.state == CallState.READY, tool_call.c.retry_at.is_not(None))
_call = (
    select(
        func.json_build_array(
            is_stopped(tool_call),
            _retrying,
            tool_call.c.lapsed_at.is_not(None),
            tool_call.c.handed_over_at.is_not(None),
            tool_call.c.answer_kind == AnswerKind.NOTHING_DONE,
        )
    )
    .where(tool_call.c.id == request.c.call_id, tool_call.c.ask_no == request.c.ask_no)
    .correlate(request)
    .scalar_subquery()
)
_ballot = vote.alias("together_ballot")
_together = (
    select(func.json_build_array(_ballot.c.together, others_in_form(_ballot)))
    .where(
        _ballot.c.together.is_not(None),
        _ballot.c.request_id == request.c.id,
        _ballot.c.superseded_by.is_(None),
        _ballot.c.team_id == decision.c.team_id,
        _ballot.c.user_id == decision.c.user_id,
    )
    .correlate(request, decision)
    .scalar_subquery()
    .label("together")
)
_answer = (
    select(func.convert_from(answer.c.value, "UTF8"))
    .join(vote, vote.c.id == answer.c.vote_id)
    .where(
        vote.c.request_id == request.c.id,
        vote.c.superseded_by.is_(None),
        vote.c.team_id == decision.c.team_id,
        vote.c.user_id == decision.c.user_id,
        answer.c.erased_at.is_(None),
    )
    .correlate(request, decision)
    .scalar_subquery()
)
_approved = request.c.status == RequestStatus.APPROVED
_LINES = (
    select(
        *request.c["id", "revision", "agent", "risk", "status", "requester_team_id", "requester_user_id"],
        *request.c["created_at", "expires_at", "channel_id", "approvers", "approvals_required", "excluded"],
        request.c.voided_at,
        # Subqueries: the planner orders at most eight joined tables freely.
        case((_approved, _attempt)).label("attempt"),
        case((_approved, _call)).label("call"),
        approvals(request).label("approvals"),
        voters(request).label("voters"),
        agent_run.c.ancestor_agents.label("above"),
        agent_run.c.label.label("label"),
        _revision.c.description,
        case((request.c.source == GRANT, func.coalesce(_grant_requester, ""))).label("granted_to"),
        message_ts(_place),
        _together,
        decision.c.team_id.label("decided_team_id"),
        decision.c.user_id.label("decided_user_id"),
        decision.c.decided_at,
        decision.c.reason,
        decision.c.approved_by,
        request.c.answer_form.is_not(None).label("wants_answer"),
        case((request.c.status == RequestStatus.ANSWERED, _answer)).label("answer"),
        request.c.answer_form["order"].label("answer_order"),
    )
    .join(_revision, present_revision(request, _revision))
    .outerjoin(_place, channel_card(request, _place))
    .outerjoin(decision, decision.c.request_id == request.c.id)
    .outerjoin(agent_run, agent_run.c.id == request.c.run_id)
)


def lines(page: SelectBase, *order: ColumnElement[Any]) -> Select[Any]:
    """Look lines up only for a page's requests.

    The limit is part of the statement: PostgreSQL keeps no plan for a limit unknown in advance.
    """
    ids = page.cte("page").prefix_with("MATERIALIZED")
    return _LINES.join(ids, ids.c.id == request.c.id).order_by(*order)


def request_line(row: Row[Any]) -> RequestLine:
    """Return a row of a list as the line of a waiting request."""
    return row_as(RequestLine, row, **_converted(row))


def history_line(row: Row[Any]) -> HistoryLine:
    """Return a row of a list as a line with its outcome, who approved it and where its card is."""
    form, others = row.together or (None, 0)
    return row_as(
        HistoryLine,
        row,
        **_converted(row),
        together=UUID(form) if form else None,
        others=others,
        decided_by=person(row.decided_team_id, row.decided_user_id),
        approved_by=people(row.approved_by or ()),
        thread=(row.channel_id, row.ts) if row.ts else None,
        answer=in_order(from_json(row.answer), row.answer_order) if row.answer else None,
    )


def _converted(row: Row[Any]) -> dict[str, object]:
    executed, settled_as = row.attempt or (None, None)
    stopped, retrying, lapsed, handed_over, nothing_done = row.call or (False,) * 5
    approval = approval_state(
        RequestStatus(row.status),
        voided=row.voided_at is not None,
        lapsed=lapsed,
        handed_over=handed_over,
        stopped=stopped,
        execution=ExecutionStatus(executed) if executed else None,
        settled_as=settled_as,
        retrying=bool(retrying),
        nothing_done=bool(nothing_done),
    )
    return {
        "approval": approval,
        "message_ts": row.ts,
        "excluded": exclusions.from_json(row.excluded),
        "voters": people(row.voters),
        "granted_to": None if row.granted_to is None else Behalf.read(row.granted_to),
    }

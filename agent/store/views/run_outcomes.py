"""What became of the calls of a completed run, and of the runs to which it delegated."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Text, case, cast, distinct, exists, func, literal, or_, select

from agent.domain.call_answers import NOT_ALLOWED
from agent.domain.run import AnswerKind, CallOutcome, CallState, RunStatus
from agent.store.tables import agent_run, approval_request, execution, tool_call


def call_outcomes() -> ColumnElement[Any]:
    """Each `CallOutcome` among them; NULL before the run is completed, or without actions.

    A read-only call that people were not asked about is no action, nor is one that started a child run. What a child
    run at work may still do is open.
    """
    call, again = tool_call.alias("made"), tool_call.alias("again")
    child, started = agent_run.alias("child"), agent_run.alias("started")
    root = select(agent_run.c.id, agent_run.c.status).correlate(agent_run)
    family = root.cte("family", recursive=True, nesting=True)
    family = family.union_all(
        select(child.c.id, child.c.status).join(family, child.c.parent_run_id == family.c.id)
    )
    asked = exists().where(approval_request.c.call_id == call.c.id)
    handed_down = exists().where(
        started.c.parent_run_id == call.c.run_id, started.c.parent_call_id == call.c.id
    )
    begun = exists().where(execution.c.call_id == call.c.id, ~execution.c.read_only)
    outcome = case(
        (call.c.state != CallState.ANSWERED, CallOutcome.OPEN.value),
        (call.c.lapsed_at.is_not(None), CallOutcome.LAPSED.value),
        (call.c.answer_kind.in_(sorted(NOT_ALLOWED)), cast(call.c.answer_kind, Text)),
        (or_(handed_down, ~or_(asked, begun)), None),
        (call.c.answer_kind == AnswerKind.NOTHING_DONE, CallOutcome.NOTHING_DONE.value),
        (call.c.answer_kind != AnswerKind.ERROR, CallOutcome.DONE.value),
        (begun, CallOutcome.FAILED.value),
        else_=CallOutcome.NOT_RUN.value,
    )
    repeated = exists().where(again.c.repeats == call.c.id)
    each = select(outcome.label("outcome")).join(family, family.c.id == call.c.run_id).where(~repeated)
    at_work = family.c.status.in_([RunStatus.WORKING, RunStatus.PENDING_APPROVAL])
    each_one = each.union_all(select(literal(CallOutcome.OPEN.value)).where(at_work)).subquery("each_one")
    found = select(func.array_agg(distinct(each_one.c.outcome))).where(each_one.c.outcome.is_not(None))
    return case((agent_run.c.status == RunStatus.COMPLETED, found.scalar_subquery()))

"""Child runs of a run's unanswered delegated calls, and theirs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import CTE, ColumnElement, FromClause, and_, exists, func, select, union_all
from sqlalchemy.dialects.postgresql import aggregate_order_by

from agent.domain.run import CallState
from agent.store.tables import agent_run, tool_call


def descendants(run_id: ColumnElement[UUID]) -> CTE:
    """``run_id``: a parameter or an enclosing statement's column."""
    call, child = tool_call.alias("call"), agent_run.alias("child")
    works_for = and_(child.c.parent_run_id == call.c.run_id, child.c.parent_call_id == call.c.id)
    below = (
        select(child.c.id, child.c.agent)
        .select_from(call.join(child, works_for))
        .where(call.c.run_id == run_id, call.c.state == CallState.DELEGATED)
        .correlate_except(call, child)
        .cte("below", recursive=True, nesting=True)
    )
    delegated = and_(call.c.run_id == below.c.id, call.c.state == CallState.DELEGATED)
    return below.union_all(
        select(child.c.id, child.c.agent).select_from(below.join(call, delegated).join(child, works_for))
    )


def with_descendants(run_id: ColumnElement[UUID]) -> FromClause:
    """Return a lateral table `family` of the ids of a run and its descendants at work."""
    return union_all(select(run_id.label("id")).correlate_except(), select(descendants(run_id).c.id)).lateral(
        "family"
    )


def waiting_descendants(run_id: ColumnElement[UUID]) -> ColumnElement[Any]:
    """Return the agents of descendants' calls that wait for people, oldest call first; NULL: none."""
    below, asked = descendants(run_id), tool_call.alias("asked")
    return (
        select(func.array_agg(aggregate_order_by(below.c.agent, asked.c.id)))
        .select_from(below)
        .join(asked, and_(asked.c.run_id == below.c.id, asked.c.state == CallState.ASKED))
        .scalar_subquery()
    )


def descendant_waits(run_id: ColumnElement[UUID]) -> ColumnElement[bool]:
    """The condition that a call of a descendant run waits for people."""
    below, asked = descendants(run_id), tool_call.alias("asked")
    waiting = and_(asked.c.run_id == below.c.id, asked.c.state == CallState.ASKED)
    return exists(select(1).select_from(below.join(asked, waiting)))

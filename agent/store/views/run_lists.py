"""Lists of runs by status: pages of one index, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    SelectBase,
    Uuid,
    and_,
    bindparam,
    exists,
    func,
    or_,
    select,
    text,
    union,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by

from agent.database.transaction import Connection, fetch
from agent.domain.request import RequestStatus
from agent.domain.run import CallExecutor, CallState, PendingQuestion, RunLine, RunStatus, RunView
from agent.store.tables import agent_run, approval_request, request_revision, tool_call
from agent.store.views.descendants import descendant_waits, with_descendants
from agent.store.views.request_rows import EMPTY_LIST, approvals, present_revision
from agent.store.views.runs import RUN_VIEW, RUNS, run_of

MAX_BYTES = 2**18
"""Bytes of a page, which is masked in one go."""

MAX_ASKED = 20
"""Waiting requests in a line."""


class RunList(StrEnum):
    """A run whose background call or child waits for people is in ``waiting``, not ``approved``."""

    ACTIVE = "active"
    WAITING = "waiting"
    APPROVED = "approved"
    DENIED = "denied"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page of a list of runs; `next` is the id to continue after, or None on the last page."""

    lines: Sequence[RunLine]
    next: UUID | None


async def run_lines(
    connection: Connection,
    team_id: str,
    which: RunList,
    *,
    principal: str | None = None,
    limit: int = 20,
    most: int = MAX_BYTES,
    after: UUID | None = None,
) -> RunPage:
    """About ``most`` bytes; ``principal`` started the runs."""
    page = _page(which, of_principal=principal is not None, later=after is not None)
    given = {"team": team_id, "principal": principal, "after": after, "limit": limit, "most": most}
    rows = await fetch(connection, page, **given)
    has_more = bool(rows) and (rows[0].found == limit or rows[0].found > len(rows))
    return RunPage([_line(row) for row in rows], rows[-1].id if has_more else None)


async def run_line(connection: Connection, run_id: UUID) -> RunLine | None:
    """Return one run as a line of a list, or None if there is no such run."""
    rows = await fetch(connection, _LINE, id=run_id)
    return _line(rows[0]) if rows else None


async def run_of_session(connection: Connection, principal: str, session_id: str, agent: str) -> UUID | None:
    """Return the latest run of an agent in a principal's session, or None if there is none."""
    parameters = {"principal": principal, "session": session_id, "agent": agent}
    found: UUID | None = (await connection.execute(_OF_SESSION, parameters)).scalar_one_or_none()
    return found


async def sessions_of(
    connection: Connection, principal: str, agent: str | None, *, limit: int, skip: int
) -> tuple[list[RunView], int]:
    """The latest run of each conversation, newest first, and their number.

    Among the principal's latest 1,000 runs.
    """
    rows = (await connection.execute(_SESSIONS, {"principal": principal, "agent": agent})).all()
    latest = list({(row.session_id, row.agent): row.id for row in reversed(rows)}.values())[::-1]
    page = latest[skip : skip + limit]
    found = {row.id: run_of(row) for row in await fetch(connection, RUNS, runs=page)}
    return [found[each] for each in page if each in found], len(latest)


async def runs_of_session(
    connection: Connection, principal: str, session_id: str, limit: int = 200
) -> list[UUID]:
    """Return the first `limit` runs of a principal's session, oldest first, of any agent."""
    given = {"principal": principal, "session": session_id, "limit": limit}
    return [row.id for row in await connection.execute(_RUNS_OF_SESSION, given)]


async def run_started_with(connection: Connection, start_key: str) -> UUID | None:
    """Return the run that was started with this key, or None if none was."""
    found: UUID | None = (await connection.execute(_OF_KEY, {"key": start_key})).scalar_one_or_none()
    return found


async def is_busy(connection: Connection, run_id: UUID) -> bool:
    """The run, or a descendant it waits for, has a due turn or a call in work.

    A call handed out to a program counts only once claimed.
    """
    (row,) = await fetch(connection, _BUSY, id=run_id)
    return bool(row.busy)


def _line(row: Row[Any]) -> RunLine:
    asked = tuple(
        PendingQuestion(
            request_id=UUID(each["id"]),
            agent=each["agent"],
            above=tuple(each["above"] or ()),
            revision=each["revision"],
            description=each["description"],
            approvals=each["approvals"],
            approvals_required=each["required"],
            expires_at=datetime.fromisoformat(each["expires"]),
        )
        for each in row.asked
    )
    return RunLine(run_of(row), asked)


_AT_WORK = (RunStatus.WORKING, RunStatus.PENDING_APPROVAL)
_request = approval_request.alias("request")
_waits = _request.c.status == RequestStatus.WAITING


@cache
def _page(which: RunList, *, of_principal: bool, later: bool) -> Select[Any]:
    conditions: list[ColumnElement[bool]] = []
    if of_principal:
        conditions.append(agent_run.c.principal == bindparam("principal"))
    if later:
        conditions.append(agent_run.c.id < bindparam("after"))
    of_team = select(agent_run.c.id).where(agent_run.c.team_id == bindparam("team"), *conditions)
    if which is RunList.ACTIVE:
        at_work = of_team.where(agent_run.c.status.in_(_AT_WORK))
        return _lines(_cut(_newest(at_work, _asking(conditions, later=later), _delegating(of_team))))
    if which is RunList.WAITING:
        return _lines(_cut(_newest(_asking(conditions, later=later), _delegating(of_team))))
    if which is RunList.APPROVED:
        asks = exists().where(_request.c.run_id == agent_run.c.id, _waits)
        completed = of_team.where(agent_run.c.status == RunStatus.COMPLETED)
        return _lines(_cut(_newest(completed.where(~asks, ~descendant_waits(agent_run.c.id)))))
    return _lines(_cut(_newest(of_team.where(agent_run.c.status == RunStatus(which)))))


def _asking(conditions: Sequence[ColumnElement[bool]], *, later: bool) -> Select[tuple[UUID]]:
    """Read through the index of requests."""
    begin = [_request.c.run_id < bindparam("after")] if later else []
    return (
        select(_request.c.run_id)
        .distinct()
        .join(agent_run, agent_run.c.id == _request.c.run_id)
        .where(
            _request.c.team_id == bindparam("team"),
            _waits,
            _request.c.run_id.is_not(None),
            *begin,
            *conditions,
        )
    )


def _delegating(of_team: Select[tuple[UUID]]) -> Select[tuple[UUID]]:
    delegated = (
        select(tool_call.c.run_id).distinct().where(tool_call.c.state == CallState.DELEGATED).subquery()
    )
    return of_team.join(delegated, delegated.c.run_id == agent_run.c.id).where(
        agent_run.c.status.in_([*_AT_WORK, RunStatus.COMPLETED]), descendant_waits(agent_run.c.id)
    )


def _newest(*runs: Select[tuple[UUID]]) -> SelectBase:
    """Each part reads no more than the page needs."""
    pages = [ids.order_by(ids.selected_columns[0].desc()).limit(bindparam("limit")) for ids in runs]
    if len(pages) == 1:
        return pages[0]
    every = union(*pages)
    return every.order_by(every.selected_columns[0].desc()).limit(bindparam("limit"))


def _cut(page: SelectBase) -> Select[Any]:
    """Leave at least one; ``found`` is the full page's count."""
    listed = page.cte("listed").prefix_with("MATERIALIZED")
    run_id = listed.c[0]
    of_calls = select(func.sum(func.octet_length(tool_call.c.raw_arguments))).where(
        tool_call.c.run_id == run_id
    )
    size = (
        func.octet_length(agent_run.c.task)
        + func.coalesce(func.octet_length(agent_run.c.answer), 0)
        + func.coalesce(of_calls.scalar_subquery(), 0)  # read to mask their values in the answer
    )
    before = func.sum(size).over(order_by=run_id.desc(), rows=(None, -1)).label("before")
    sized = (
        select(run_id.label("id"), before, func.count().over().label("found"))
        .join(agent_run, agent_run.c.id == run_id)
        .subquery("sized")
    )
    return select(sized.c.id, sized.c.found).where(func.coalesce(sized.c.before, 0) < bindparam("most"))


def _lines(page: SelectBase) -> Select[Any]:
    ids = page.cte("page").prefix_with("MATERIALIZED")
    run_id, *others = ids.c
    return (
        RUN_VIEW.add_columns(_questions().label("asked"), *others)
        .join(ids, run_id == agent_run.c.id)
        .order_by(agent_run.c.id.desc())
    )


def _questions() -> ColumnElement[Any]:
    member, revision = agent_run.alias("member"), request_revision.alias("revision")
    family = with_descendants(agent_run.c.id)
    question = (
        select(
            _request.c.id,
            _request.c.agent,
            member.c.ancestor_agents.label("above"),
            _request.c.revision,
            revision.c.description,
            approvals(_request).label("approvals"),
            _request.c.approvals_required.label("required"),
            _request.c.expires_at.label("expires"),
        )
        .select_from(family)
        .join(_request, and_(_request.c.run_id == family.c.id, _waits))
        .join(revision, present_revision(_request, revision))
        .join(member, member.c.id == family.c.id)
        .order_by(_request.c.id)
        .limit(MAX_ASKED)
        .subquery("question")
    )
    listed = func.json_agg(aggregate_order_by(question.table_valued(), question.c.id))
    return select(func.coalesce(listed, EMPTY_LIST)).select_from(question).scalar_subquery()


_LINE = _lines(select(agent_run.c.id).where(agent_run.c.id == bindparam("id")))
_OF_SESSION = text("""
SELECT id FROM agent_run WHERE principal = :principal AND session_id = :session AND agent = :agent
ORDER BY id DESC LIMIT 1
""")
_RUNS_OF_SESSION = text("""
SELECT id FROM agent_run WHERE principal = :principal AND session_id = :session ORDER BY id LIMIT :limit
""")
_SESSIONS = text("""
SELECT id, session_id, agent FROM agent_run
WHERE principal = :principal AND session_id IS NOT NULL AND (CAST(:agent AS text) IS NULL OR agent = :agent)
ORDER BY id DESC LIMIT 1000
""")
_OF_KEY = text("SELECT id FROM agent_run WHERE start_key = :key")


def _busy() -> Select[tuple[bool]]:
    family = with_descendants(bindparam("id", type_=Uuid))
    run, call = agent_run.alias("run"), tool_call.alias("call")
    states = [CallState.NEW, CallState.READY, CallState.REFUSED, CallState.CLAIMED]
    turn_due = and_(run.c.status.in_(_AT_WORK), run.c.inputs > run.c.heard)
    here = or_(call.c.state != CallState.READY, call.c.executor == CallExecutor.HERE)
    at_work = exists().where(call.c.run_id == run.c.id, call.c.state.in_(states), here)
    return select(func.bool_or(turn_due | at_work).label("busy")).select_from(
        family.join(run, run.c.id == family.c.id)
    )


_BUSY = _busy()

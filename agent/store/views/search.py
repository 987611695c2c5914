"""For operators. Pages by id (time); filters go agent by agent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from uuid import UUID

from sqlalchemy import (
    CTE,
    ColumnElement,
    Integer,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    cast,
    exists,
    func,
    select,
    text,
    true,
    tuple_,
    union,
)

from agent.database.transaction import Connection, fetch
from agent.domain.audit import AuditEvent, genesis
from agent.domain.request import RequestStatus, Verdict
from agent.domain.run import CallState, RunStatus
from agent.domain.short_ids import parse_id_prefix
from agent.store.ids import lowest_since
from agent.store.rows import row_as
from agent.store.tables import agent_run, approval_request, audit_event, tool_call
from agent.store.views.descendants import descendant_waits
from signoff.values import Person


async def search_requests(
    connection: Connection,
    *,
    status: RequestStatus | None = None,
    agent: str | None = None,
    since: datetime | None = None,
    limit: int = 20,
) -> list[UUID]:
    """Return the ids of the newest requests of all workspaces that match, at most `limit`."""
    return await _newest(connection, approval_request, status, agent, since, limit)


async def search_runs(
    connection: Connection,
    *,
    status: RunStatus | None = None,
    agent: str | None = None,
    since: datetime | None = None,
    limit: int = 20,
) -> list[UUID]:
    """``status`` is that of ``RunView.shown``."""
    return await _newest(connection, agent_run, status, agent, since, limit)


async def _newest(
    connection: Connection,
    table: Table,
    status: RequestStatus | RunStatus | None,
    agent: str | None,
    since: datetime | None,
    limit: int,
) -> list[UUID]:
    page = _search(table, status, of_agent=agent is not None, later=since is not None)
    first = None if since is None else lowest_since(since)
    rows = await fetch(connection, page, agent=agent, since=since, first=first, limit=limit)
    return [row.id for row in rows]


async def requests_between(
    connection: Connection, since: datetime, until: datetime, after: UUID | None, limit: int
) -> list[UUID]:
    """Return a page of ids, ascending, of requests opened or decided from `since` until before `until`."""
    parameters = {"since": since, "until": until, "after": after or UUID(int=0), "limit": limit}
    return list((await connection.execute(_REQUESTS_BETWEEN, parameters)).scalars())


@dataclass(frozen=True, slots=True)
class CastVote:
    """A vote as cast, even if superseded since."""

    id: UUID
    request_id: UUID
    revision: int
    digest: bytes
    person: Person
    verdict: Verdict
    reason: str | None
    path: str
    superseded: bool
    at: datetime
    together: UUID | None


async def votes_between(
    connection: Connection, since: datetime, until: datetime, after: UUID | None, limit: int
) -> list[CastVote]:
    """Return a page of the votes cast from `since` until before `until`, superseded ones too, by id."""
    parameters = {"since": since, "until": until, "after": after or lowest_since(since), "limit": limit}
    return [row_as(CastVote, row) for row in await connection.execute(_VOTES_BETWEEN, parameters)]


async def events_between(
    connection: Connection, since: datetime, until: datetime, after: AuditEvent | None, limit: int
) -> list[tuple[AuditEvent, bytes]]:
    """Return a page of all audit events from `since` until before `until`, by time, subject and number.

    Each comes with the hash of the event before it in its chain; empty: that is gone.
    """
    parameters = {
        "until": until,
        "at": after.at if after else since,
        "subject": after.subject if after else "",
        "seq": after.seq if after else 0,
        "limit": limit,
    }
    return [
        (AuditEvent(*event), genesis(event[0]) if event[1] == 1 else before or b"")
        for *event, before in await fetch(connection, _EVENTS_BETWEEN, **parameters)
    ]


@cache
def _search(
    table: Table, status: RequestStatus | RunStatus | None, *, of_agent: bool, later: bool
) -> Select[tuple[UUID]]:
    conditions: list[ColumnElement[bool]] = []
    if later:
        conditions += [table.c.id >= bindparam("first"), table.c.created_at >= bindparam("since")]
    if status is None and not of_agent:
        return select(table.c.id).where(*conditions).order_by(table.c.id.desc()).limit(bindparam("limit"))
    agents = select(bindparam("agent", type_=Text).label("agent")).cte("each") if of_agent else _agents(table)
    if status in (RunStatus.WORKING, RunStatus.PENDING_APPROVAL):
        found = _shown_as(RunStatus(status), agents, conditions)
    else:
        statuses: Iterable[RunStatus | RequestStatus] = RunStatus if table is agent_run else RequestStatus
        statuses = [status] if status else statuses
        found = [_of_each(agents, _standing(table, each, conditions), table.c.agent) for each in statuses]
    page = union(*found).subquery("found")
    return select(page.c.id).order_by(page.c.id.desc()).limit(bindparam("limit"))


def _agents(table: Table) -> CTE:
    """Walk from agent to agent through the index, without reading rows in between."""
    each = select(func.min(table.c.agent).label("agent")).cte("each", recursive=True)
    following = select(func.min(table.c.agent)).where(table.c.agent > each.c.agent).scalar_subquery()
    return each.union_all(select(following).where(each.c.agent.is_not(None)))


def _of_each(agents: CTE, rows: Select[tuple[UUID]], agent: ColumnElement[str]) -> Select[tuple[UUID]]:
    rows = rows.where(agent == agents.c.agent).correlate(agents)
    newest = rows.order_by(rows.selected_columns[0].desc()).limit(bindparam("limit")).lateral()
    return (
        select(newest.c[0].label("id"))
        .select_from(agents.join(newest, true()))
        .where(agents.c.agent.is_not(None))
    )


def _standing(
    table: Table, status: RequestStatus | RunStatus, conditions: Sequence[ColumnElement[bool]]
) -> Select[tuple[UUID]]:
    return select(table.c.id).where(table.c.status == status, *conditions)


def _shown_as(
    shown: RunStatus, agents: CTE, conditions: Sequence[ColumnElement[bool]]
) -> list[Select[tuple[UUID]]]:
    """Open calls tell whether a working or parked run waits for people."""
    call, status, waits = tool_call.alias("open_call"), agent_run.c.status, descendant_waits(agent_run.c.id)
    of_calls = select(call.c.run_id).distinct().join(agent_run, agent_run.c.id == call.c.run_id)
    of_calls = of_calls.where(*conditions)
    if shown is RunStatus.PENDING_APPROVAL:
        goes_on = status.in_([RunStatus.WORKING, RunStatus.PENDING_APPROVAL, RunStatus.COMPLETED])
        calls = [
            of_calls.where(call.c.state == CallState.ASKED, goes_on),
            of_calls.where(call.c.state == CallState.DELEGATED, goes_on, waits),
        ]
        return [_of_each(agents, rows, call.c.agent) for rows in calls]
    asks = exists().where(tool_call.c.run_id == agent_run.c.id, tool_call.c.state == CallState.ASKED)
    alone = [~asks, ~waits]
    states = [each for each in CallState if each not in (CallState.ASKED, CallState.ANSWERED)]
    calls = [
        of_calls.where(call.c.state == state, status == RunStatus.PENDING_APPROVAL, *alone)
        for state in states
    ]
    at_work = _standing(agent_run, RunStatus.WORKING, [*conditions, *alone])
    return [
        _of_each(agents, at_work, agent_run.c.agent),
        *(_of_each(agents, rows, call.c.agent) for rows in calls),
    ]


_REQUESTS_BETWEEN = text("""
SELECT id FROM approval_request
WHERE id > :after AND ((created_at >= :since AND created_at < :until) OR (decided_at >= :since AND decided_at < :until))
ORDER BY id LIMIT :limit
""")
_VOTES_BETWEEN = text("""
SELECT b.id, b.request_id, b.revision, v.digest, b.team_id AS person_team_id, b.user_id AS person_user_id,
       b.verdict::text AS verdict, b.reason, b.path, b.superseded_by IS NOT NULL AS superseded, b.created_at AS at,
       b.together
FROM vote AS b JOIN request_revision AS v ON v.request_id = b.request_id AND v.n = b.revision
WHERE b.id > :after AND b.created_at >= :since AND b.created_at < :until
ORDER BY b.id LIMIT :limit
""")
_position = (audit_event.c.at, audit_event.c.subject, audit_event.c.seq)
_earlier = audit_event.alias("earlier")
_EVENTS_BETWEEN = (
    select(audit_event, _earlier.c.hash.label("previous"))
    .outerjoin(
        _earlier,
        and_(_earlier.c.subject == audit_event.c.subject, _earlier.c.seq == audit_event.c.seq - 1),
    )
    .where(audit_event.c.at >= bindparam("at"), audit_event.c.at < bindparam("until"))
    .where(
        tuple_(*_position)
        > tuple_(bindparam("at"), bindparam("subject", type_=Text), bindparam("seq", type_=Integer))
    )
    .order_by(*_position)
    .limit(bindparam("limit"))
)


async def requests_like(connection: Connection, *, id_prefix: str, team_id: str | None = None) -> list[UUID]:
    """At most two ids; two mean ambiguous."""
    return await _ids_like(connection, approval_request, id_prefix, team_id)


async def runs_like(connection: Connection, *, id_prefix: str, team_id: str | None = None) -> list[UUID]:
    """At most two ids; two mean ambiguous."""
    return await _ids_like(connection, agent_run, id_prefix, team_id)


async def _ids_like(connection: Connection, table: Table, typed: str, team_id: str | None) -> list[UUID]:
    wanted = parse_id_prefix(typed)
    if wanted is None:
        return []
    key = {"first": wanted.first, "last": wanted.last, "pattern": wanted.pattern, "team": team_id}
    rows = await fetch(connection, _like(table, of_team=team_id is not None), **key)
    return [row.id for row in rows]


@cache
def _like(table: Table, *, of_team: bool) -> Select[tuple[UUID]]:
    written = func.replace(cast(table.c.id, Text), "-", "")
    found = (
        select(table.c.id)
        .where(table.c.id.between(bindparam("first"), bindparam("last")))
        .where(written.regexp_match(bindparam("pattern")))
        .limit(2)
    )
    return found.where(table.c.team_id == bindparam("team")) if of_team else found

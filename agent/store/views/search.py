"""Requests, runs and what happened to them over all teams, for operators: in pages by id, each one walk of an index.

Ids begin with the time at which they were made, so the primary key is in the order of creation.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    Table,
    Text,
    bindparam,
    case,
    exists,
    literal,
    select,
    text,
    tuple_,
)

from agent.database.transaction import Connection, fetch
from agent.domain.audit import AuditEvent
from agent.domain.request import RequestStatus, Verdict
from agent.domain.run import CallState, RunStatus
from agent.store.ids import id_at
from agent.store.tables import agent_run, approval_request, audit_event, run_status, tool_call
from agent.store.views.descendants import descendant_waits
from signoff.values import Person

SKEW = timedelta(minutes=5)
"""How far the clock of a process that makes ids may be from the database's."""


async def search_requests(
    connection: Connection,
    *,
    status: RequestStatus | None = None,
    agent: str | None = None,
    since: datetime | None = None,
    limit: int = 20,
) -> list[UUID]:
    """The latest requests of which all this is true, newest first."""
    return await _newest(connection, approval_request, status, agent, since, limit)


async def search_runs(
    connection: Connection,
    *,
    status: RunStatus | None = None,
    agent: str | None = None,
    since: datetime | None = None,
    limit: int = 20,
) -> list[UUID]:
    """The same for runs; ``status`` is that of ``RunView.shown``."""
    return await _newest(connection, agent_run, status, agent, since, limit)


async def _newest(
    connection: Connection,
    table: Table,
    status: RequestStatus | RunStatus | None,
    agent: str | None,
    since: datetime | None,
    limit: int,
) -> list[UUID]:
    given = {"status": status, "agent": agent, "since": since}
    filters = frozenset(name for name, value in given.items() if value is not None)
    first = None if since is None else _before(since)
    shown = status if isinstance(status, RunStatus) else None
    rows = await fetch(connection, _search(table, filters, shown), **given, first=first, limit=limit)
    return [row.id for row in rows]


async def requests_between(
    connection: Connection, since: datetime, until: datetime, after: UUID | None, limit: int
) -> list[UUID]:
    """The next requests that were opened or decided in that time (its end is not part of it), oldest first."""
    parameters = {"since": since, "until": until, "after": after or UUID(int=0), "limit": limit}
    return list((await connection.execute(_REQUESTS_BETWEEN, parameters)).scalars())


@dataclass(frozen=True, slots=True)
class CastVote:
    """A vote as it was cast, also one that its voter has taken back since."""

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


async def votes_between(
    connection: Connection, since: datetime, until: datetime, after: UUID | None, limit: int
) -> list[CastVote]:
    """The next votes of that time, in the order of their ids."""
    parameters = {"since": since, "until": until, "after": after or _before(since), "limit": limit}
    return [
        CastVote(
            row.id,
            row.request_id,
            row.revision,
            bytes(row.digest),
            Person(row.team_id, row.user_id),
            Verdict(row.verdict),
            row.reason,
            row.path,
            row.superseded,
            row.created_at,
        )
        for row in await connection.execute(_VOTES_BETWEEN, parameters)
    ]


async def events_between(
    connection: Connection, since: datetime, until: datetime, after: AuditEvent | None, limit: int
) -> list[AuditEvent]:
    """The next events of the record of that time, in the order of their clocks."""
    parameters = {
        "until": until,
        "at": after.at if after else since,
        "subject": after.subject if after else "",
        "seq": after.seq if after else 0,
        "limit": limit,
    }
    return [AuditEvent(*row) for row in await fetch(connection, _EVENTS_BETWEEN, **parameters)]


def _before(at: datetime) -> UUID:
    return id_at(at - SKEW)


@cache
def _search(table: Table, filters: frozenset[str], shown: RunStatus | None) -> Select[tuple[UUID]]:
    """The newest rows of requests or runs, in the order of the primary key."""
    found = select(table.c.id).order_by(table.c.id.desc()).limit(bindparam("limit"))
    if "since" in filters:
        found = found.where(table.c.id >= bindparam("first"), table.c.created_at >= bindparam("since"))
    if "agent" in filters:
        found = found.where(table.c.agent == bindparam("agent"))
    if shown is not None:
        # The stored status first: it spares most rows the look at their calls.
        return found.where(agent_run.c.status.in_(_STORED_AS[shown]), _shown_status() == bindparam("status"))
    return found.where(table.c.status == bindparam("status")) if "status" in filters else found


_OPEN = (RunStatus.WORKING, RunStatus.PENDING_APPROVAL)
_STORED_AS = {
    **{status: (status,) for status in RunStatus},
    RunStatus.WORKING: _OPEN,
    RunStatus.PENDING_APPROVAL: (*_OPEN, RunStatus.COMPLETED),
}
"""The stored statuses of a run that may be shown as this one."""


def _shown_status() -> ColumnElement[str]:
    """What ``RunView.shown`` says of a run."""
    status = agent_run.c.status
    asks = exists().where(tool_call.c.run_id == agent_run.c.id, tool_call.c.state == CallState.ASKED)
    return case(
        (status.not_in([*_OPEN, RunStatus.COMPLETED]), status),
        (asks | descendant_waits(agent_run.c.id), literal(RunStatus.PENDING_APPROVAL, run_status)),
        (status == RunStatus.PENDING_APPROVAL, literal(RunStatus.WORKING, run_status)),
        else_=status,
    )


_REQUESTS_BETWEEN = text("""
SELECT id FROM approval_request
WHERE id > :after AND ((created_at >= :since AND created_at < :until) OR (decided_at >= :since AND decided_at < :until))
ORDER BY id LIMIT :limit
""")
_VOTES_BETWEEN = text("""
SELECT b.id, b.request_id, b.revision, v.digest, b.team_id, b.user_id, b.verdict::text AS verdict, b.reason, b.path,
       b.superseded_by IS NOT NULL AS superseded, b.created_at
FROM vote AS b JOIN request_revision AS v ON v.request_id = b.request_id AND v.n = b.revision
WHERE b.id > :after AND b.created_at >= :since AND b.created_at < :until
ORDER BY b.id LIMIT :limit
""")
_position = (audit_event.c.at, audit_event.c.subject, audit_event.c.seq)
_EVENTS_BETWEEN = (
    select(audit_event)
    .where(audit_event.c.at >= bindparam("at"), audit_event.c.at < bindparam("until"))
    .where(
        tuple_(*_position)
        > tuple_(bindparam("at"), bindparam("subject", type_=Text), bindparam("seq", type_=Integer))
    )
    .order_by(*_position)
    .limit(bindparam("limit"))
)

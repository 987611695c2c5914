"""Requests, runs and what happened to them over all teams, for operators: in pages by id, each one walk of an index.

Ids begin with the time at which they were made, so the primary key is in the order of creation.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection
from agent.domain.audit import AuditEvent
from agent.domain.request import RequestStatus, Verdict
from agent.domain.run import RunStatus
from agent.store.ids import id_at
from agent.store.views.descendants import descendant_waits
from agent.store.views.id_prefixes import BETWEEN, ids_with_prefix
from signoff.values import Person

SKEW = timedelta(minutes=5)
"""How far the clock of a process that makes ids may be from the database's."""

_END = UUID(int=2**128 - 1)


async def search_requests(
    connection: Connection,
    *,
    status: RequestStatus | None = None,
    agent: str | None = None,
    since: datetime | None = None,
    limit: int = 20,
) -> list[UUID]:
    """The latest requests of which all this is true, newest first."""
    parameters = {
        "status": status.value if status else None,
        "agent": agent,
        "since": since,
        "first": _first(since),
        "limit": limit,
    }
    return list((await connection.execute(_REQUESTS, parameters)).scalars())


async def search_runs(
    connection: Connection,
    *,
    status: RunStatus | None = None,
    agent: str | None = None,
    since: datetime | None = None,
    limit: int = 20,
) -> list[UUID]:
    """The same for runs; ``status`` is that of ``RunView.shown``."""
    parameters = {
        "status": status.value if status else None,
        "agent": agent,
        "since": since,
        "first": _first(since),
        "limit": limit,
    }
    return list((await connection.execute(_RUNS, parameters)).scalars())


async def request_ids_like(connection: Connection, prefix: str) -> list[UUID]:
    """Up to two requests, of any team, whose id begins so."""
    return await ids_with_prefix(connection, _REQUEST_LIKE, prefix)


async def run_ids_like(connection: Connection, prefix: str) -> list[UUID]:
    """Up to two runs, of any team, whose id begins so."""
    return await ids_with_prefix(connection, _RUN_LIKE, prefix)


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
    return [
        AuditEvent(r.subject, r.seq, r.at, r.actor, r.event, r.detail, bytes(r.previous), bytes(r.hash))
        for r in await connection.execute(_EVENTS_BETWEEN, parameters)
    ]


def _first(since: datetime | None) -> UUID:
    return UUID(int=0) if since is None else _before(since)


def _before(at: datetime) -> UUID:
    return id_at(at - SKEW)


_FILTERS = """id >= :first AND (CAST(:since AS timestamptz) IS NULL OR created_at >= :since)
  AND (CAST(:agent AS text) IS NULL OR agent = :agent)"""
_SHOWN = f"""
CASE WHEN status NOT IN ('working', 'pending_approval', 'completed') THEN status::text
     WHEN EXISTS (SELECT 1 FROM tool_call AS c WHERE c.run_id = agent_run.id AND c.state = 'asked')
       OR {descendant_waits("agent_run")} THEN 'pending_approval'
     WHEN status = 'pending_approval' THEN 'working' ELSE status::text END"""  # noqa: S608 - constants
_REQUESTS = text(f"""
SELECT id FROM approval_request
WHERE {_FILTERS} AND (CAST(:status AS text) IS NULL OR status = CAST(:status AS request_status))
ORDER BY id DESC LIMIT :limit
""")  # noqa: S608 - a constant
_RUNS = text(f"""
SELECT id FROM agent_run
WHERE {_FILTERS} AND (CAST(:status AS text) IS NULL OR CAST(:status AS text) = {_SHOWN})
ORDER BY id DESC LIMIT :limit
""")  # noqa: S608 - a constant
_REQUEST_LIKE = text(f"SELECT id FROM approval_request WHERE {BETWEEN}")  # noqa: S608 - a constant
_RUN_LIKE = text(f"SELECT id FROM agent_run WHERE {BETWEEN}")  # noqa: S608 - a constant
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
_EVENTS_BETWEEN = text("""
SELECT subject, seq, at, actor, event, detail, previous, hash FROM audit_event
WHERE at >= :at AND at < :until AND (at, subject, seq) > (:at, CAST(:subject AS text), CAST(:seq AS integer))
ORDER BY at, subject, seq LIMIT :limit
""")

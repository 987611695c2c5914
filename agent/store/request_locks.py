"""Lock and read a request; for votes and edits see `vote_locks`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, fetch, query
from agent.domain.people import Exclusion
from agent.domain.request import RequestStatus
from agent.domain.rules import Rule, Snapshot
from agent.store import exclusions, pause
from agent.store.outbox import Destination
from agent.store.rows import row_as
from agent.store.views.program_requests import OPENED_AS
from signoff.values import Person


@dataclass(frozen=True, slots=True)
class LockedRequest:
    """A request as it is under its lock, with what decides who may vote on it or edit it."""

    id: UUID
    call_id: UUID
    run_id: UUID | None
    """None: a program asks, or a grant does."""
    agent: str
    tool: str
    destination: Destination
    status: RequestStatus
    revision: int
    approvals_required: int
    approvers: tuple[str, ...]
    excluded: tuple[Exclusion, ...]
    reason_required: frozenset[str]
    allow_edit: bool
    editor_may_approve: bool
    expires_at: datetime
    decided_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredRevision:
    """``canonical``: the action's bytes."""

    canonical: bytes
    digest: bytes
    policy: Snapshot
    policy_epoch: int

    @property
    def rule(self) -> Rule:
        return Rule.from_snapshot(self.policy)


@dataclass(frozen=True, slots=True)
class ExpiredRequest:
    """A request of a run's call that a person wants asked again; whether it expired is in `status`."""

    id: UUID
    status: RequestStatus
    call_id: UUID
    run_id: UUID
    destination: Destination
    requester: Person | None
    erased: bool


async def lock(connection: Connection, request_id: UUID) -> LockedRequest | None:
    """Read the revision after the lock: a join of it would lose the row when an edit commits in between."""
    row = (await connection.execute(_REQUEST, {"id": request_id})).one_or_none()
    return row_as(LockedRequest, row, excluded=exclusions.from_json(row.excluded)) if row else None


async def lock_of_call(connection: Connection, call_id: UUID) -> None:
    """The call's run must be locked; the call's own lock follows."""
    await connection.execute(_TAKE_REQUEST_OF_CALL, {"call": call_id})


async def revision(connection: Connection, request_id: UUID, n: int) -> StoredRevision:
    """Return one revision of a request with the epoch in force; the revision has to exist."""
    row = (await connection.execute(_REVISION, {"id": request_id, "n": n})).one()
    return StoredRevision(bytes(row.action), bytes(row.digest), row.policy, row.policy_epoch)


async def find_by_call(connection: Connection, call_id: UUID) -> tuple[UUID, bytes] | None:
    """The current request, and its first digest."""
    row = (await connection.execute(_REQUEST_OF_CALL, {"call": call_id})).one_or_none()
    return (row.id, bytes(row.digest)) if row else None


async def lock_client_id(
    connection: Connection, principal: str, client_id: str, *, hold: bool = False
) -> tuple[UUID, bytes] | None:
    """The request of this client id and its content digest; a second opener waits for the first.

    ``hold``: also hold the pause switch.
    """
    first = (pause.HOLD,) if hold else ()
    *_, found = await query(
        connection, *first, _TAKE_CLIENT_ID, OPENED_AS, principal=principal, client=client_id
    )
    return (found[0].id, bytes(found[0].content_digest)) if found else None


async def find_expired(connection: Connection, request_id: UUID) -> ExpiredRequest | None:
    """Return a run's request to ask again, whatever its status; None if unknown or asked by a program."""
    row = (await connection.execute(_CALL_OF_REQUEST, {"id": request_id})).one_or_none()
    return row_as(ExpiredRequest, row) if row else None


_REQUEST = text("""
SELECT r.id, r.call_id, r.run_id, r.agent, v.tool, r.status::text AS status, r.revision, r.team_id, r.channel_id,
       r.approvals_required,
       r.expires_at, r.decided_at, r.approvers, r.excluded, rule.content -> 'reason_required' AS reason_required,
       coalesce((rule.content ->> 'allow_edit')::boolean, false) AS allow_edit,
       coalesce((rule.content ->> 'editor_may_approve')::boolean, false) AS editor_may_approve
FROM approval_request AS r JOIN request_revision AS v ON v.request_id = r.id AND v.n = 1
JOIN rule ON rule.digest = r.rule_digest
WHERE r.id = :id FOR NO KEY UPDATE OF r
""")
_TAKE_REQUEST_OF_CALL = text("""
SELECT 1 FROM approval_request AS r JOIN tool_call AS c ON c.id = r.call_id AND c.ask_no = r.ask_no
WHERE c.id = :call FOR NO KEY UPDATE OF r
""")
_REVISION = text("""
SELECT rule.content AS policy, v.action, v.digest, coalesce((SELECT max(epoch) FROM policy), 0) AS policy_epoch
FROM approval_request AS r JOIN request_revision AS v ON v.request_id = r.id
JOIN rule ON rule.digest = r.rule_digest
WHERE r.id = :id AND v.n = :n
""")
_REQUEST_OF_CALL = text("""
SELECT r.id, v.digest FROM approval_request AS r
JOIN request_revision AS v ON v.request_id = r.id AND v.n = 1
JOIN tool_call AS c ON c.id = r.call_id AND c.ask_no = r.ask_no WHERE c.id = :call
""")
_TAKE_CLIENT_ID = text("""
SELECT pg_advisory_xact_lock(hashtextextended(
    'signoff question ' || current_schema() || ' ' || :principal || chr(10) || :client, 0))
""")
_CALL_OF_REQUEST = text("""
SELECT r.id, r.status::text AS status, r.call_id, c.run_id, r.team_id, r.channel_id,
       r.requester_team_id, r.requester_user_id, v.erased_at IS NOT NULL AS erased
FROM approval_request AS r JOIN tool_call AS c ON c.id = r.call_id AND c.run_id IS NOT NULL
JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision WHERE r.id = :id
""")


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A waiting request, locked because it is about to end."""

    id: UUID
    run_id: UUID | None
    call_id: UUID
    agent: str
    tool: str
    destination: Destination
    revision: int
    digest: bytes
    approvers: tuple[str, ...]

    @property
    def channel_id(self) -> str:
        return self.destination.channel_id


@dataclass(frozen=True, slots=True)
class DueRequest(OpenRequest):
    """``escalates``: more reviewers and another window instead of the end."""

    escalates: bool
    escalate_to: tuple[str, ...]
    window: timedelta
    remind_at: tuple[float, ...]


async def lock_due(
    connection: Connection, limit: int, but: Collection[UUID] = (), only: UUID | None = None
) -> list[DueRequest]:
    """Lock overdue requests that nobody else holds, except ``but``; or ``only`` this one."""
    return [
        row_as(DueRequest, row)
        for row in await fetch(connection, _DUE, limit=limit, but=list(but), only=only)
    ]


async def lock_waiting(connection: Connection, runs: Sequence[UUID]) -> list[OpenRequest]:
    """Lock the waiting requests of these runs in the order of their ids, and return them."""
    _, found = await query(connection, _TAKE_OPEN_OF_RUNS, _OPEN_OF_RUNS, runs=list(runs))
    return [row_as(OpenRequest, row) for row in found]


# A subquery reads the clock once and can bound the index scan; a volatile function would be called per waiting row.
_DUE = text("""
SELECT r.id, r.run_id, r.call_id, r.agent, v.tool, r.team_id, r.channel_id, r.revision, v.digest,
       coalesce(rule.content ->> 'on_timeout' = 'escalate' AND r.escalated_at IS NULL, false) AS escalates,
       r.approvers, rule.content -> 'escalate_to' AS escalate_to,
       make_interval(secs => (rule.content ->> 'timeout')::float) AS "window", rule.content -> 'remind_at' AS remind_at
FROM approval_request AS r
JOIN LATERAL (
    SELECT digest, tool FROM request_revision WHERE request_id = r.id AND n = r.revision OFFSET 0) AS v ON true
JOIN LATERAL (SELECT content FROM rule WHERE digest = r.rule_digest OFFSET 0) AS rule ON true
WHERE r.status = 'waiting' AND r.expires_at <= (SELECT clock_timestamp())
  AND r.id <> ALL(ARRAY(SELECT unnest(CAST(:but AS uuid[])))) AND (CAST(:only AS uuid) IS NULL OR r.id = :only)
ORDER BY r.expires_at LIMIT (SELECT CAST(:limit AS int)) FOR NO KEY UPDATE OF r SKIP LOCKED
""")
_TAKE_OPEN_OF_RUNS = text("""
SELECT 1 FROM approval_request WHERE run_id = ANY(:runs) AND status = 'waiting' ORDER BY id FOR NO KEY UPDATE
""")
_OPEN_OF_RUNS = text("""
SELECT r.id, r.run_id, r.call_id, r.agent, v.tool, r.team_id, r.channel_id, r.revision, r.approvers, v.digest
FROM approval_request AS r JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
WHERE r.run_id = ANY(:runs) AND r.status = 'waiting' ORDER BY r.id
""")

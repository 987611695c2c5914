"""Lock and read a request; for votes and edits see `vote_locks`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, query
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
    row = (await connection.execute(_CALL_OF_REQUEST, {"id": request_id})).one_or_none()
    return row_as(ExpiredRequest, row) if row else None


_REQUEST = text("""
SELECT r.id, r.call_id, r.run_id, r.agent, v.tool, r.status::text AS status, r.revision, r.team_id, r.channel_id,
       r.approvals_required,
       r.expires_at, r.decided_at, r.approvers, r.excluded, r.policy -> 'reason_required' AS reason_required,
       coalesce((r.policy ->> 'allow_edit')::boolean, false) AS allow_edit,
       coalesce((r.policy ->> 'editor_may_approve')::boolean, false) AS editor_may_approve
FROM approval_request AS r JOIN request_revision AS v ON v.request_id = r.id AND v.n = 1
WHERE r.id = :id FOR NO KEY UPDATE OF r
""")
_TAKE_REQUEST_OF_CALL = text("""
SELECT 1 FROM approval_request AS r JOIN tool_call AS c ON c.id = r.call_id AND c.ask_no = r.ask_no
WHERE c.id = :call FOR NO KEY UPDATE OF r
""")
_REVISION = text("""
SELECT r.policy, v.action, v.digest, coalesce((SELECT max(epoch) FROM policy), 0) AS policy_epoch
FROM approval_request AS r JOIN request_revision AS v ON v.request_id = r.id
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

"""What use cases lock and read of a request before they decide.

A statement that judges time or counts votes starts after the lock was taken: PostgreSQL evaluates a locking
statement's own expressions before it waits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.transaction import Connection, query
from agent.store.instructors import INSTRUCTORS


async def lock(connection: Connection, request_id: UUID) -> Row[Any] | None:
    """A request, locked, with what votes on it depend on of the policy it was opened under.

    Its revision is read behind the lock (``ballot``, ``revision``): a join with the present revision would lose
    the row when that changes while the statement waits for it.
    """
    return (await connection.execute(_REQUEST, {"id": request_id})).one_or_none()


async def lock_of_call(connection: Connection, call_id: UUID) -> None:
    """Lock the request that stands for a call whose run is locked; comes before the call's own lock."""
    await connection.execute(_TAKE_REQUEST_OF_CALL, {"call": call_id})


async def lock_for_vote(
    connection: Connection, request_id: UUID, subject: str, nonce: str | None
) -> tuple[Row[Any], Row[Any]] | None:
    """`request`, and what a vote on it depends on, as it stands after the lock.

    That is: the present revision's digest and editor, the owner of the key that asked, who instructed the agent,
    the live votes, the decision, the audit head, the place named by the nonce, and the time.
    """
    found, state = await query(
        connection, _REQUEST, _BALLOT_STATE, id=request_id, subject=subject, nonce=nonce
    )
    return (found[0], state[0]) if found else None


async def revision(connection: Connection, request_id: UUID, n: int) -> Row[Any]:
    """One revision's action and digest, and the policy of its request."""
    return (await connection.execute(_REVISION, {"id": request_id, "n": n})).one()


async def find_by_call(connection: Connection, call_id: UUID) -> Row[Any] | None:
    """The request that stands for the call now, with its first digest."""
    return (await connection.execute(_REQUEST_OF_CALL, {"call": call_id})).one_or_none()


async def lock_client_id(connection: Connection, principal: str, client_id: str) -> Row[Any] | None:
    """The request of that name, once nobody else is opening it; a second opener waits here for the first."""
    key = {"principal": principal, "client": client_id}
    await connection.execute(_TAKE_CLIENT_ID, key)
    return (await connection.execute(_REQUEST_OF_CLIENT, key)).one_or_none()


async def find_expired(connection: Connection, request_id: UUID) -> Row[Any] | None:
    """A run's request with its call, to be asked again."""
    return (await connection.execute(_CALL_OF_REQUEST, {"id": request_id})).one_or_none()


async def lock_due(connection: Connection, limit: int, but: Collection[UUID] = ()) -> Sequence[Row[Any]]:
    """Overdue waiting requests that nobody else holds, without those named."""
    return (await connection.execute(_DUE, {"limit": limit, "but": list(but)})).all()


async def lock_due_one(connection: Connection, request_id: UUID) -> Sequence[Row[Any]]:
    """The request, locked, if it is due and nobody else holds it."""
    return (await connection.execute(_DUE_ONE, {"id": request_id})).all()


async def lock_waiting(connection: Connection, runs: Sequence[UUID]) -> Sequence[Row[Any]]:
    """The waiting requests of these runs, locked."""
    await connection.execute(_TAKE_OPEN_OF_RUNS, {"runs": list(runs)})
    return (await connection.execute(_OPEN_OF_RUNS, {"runs": list(runs)})).all()


async def approved(connection: Connection, runs: Sequence[UUID]) -> Sequence[Row[Any]]:
    """The requests of these runs whose calls may run and have not begun. Nothing is locked: their runs are."""
    return (await connection.execute(_APPROVED_OF_RUNS, {"runs": list(runs)})).all()


_REQUEST = text("""
SELECT r.id, r.call_id, r.status::text AS status, r.revision, r.team_id, r.channel_id, r.approvals_required,
       r.expires_at, r.decided_at, r.requester_team_id, r.requester_user_id, r.excluded,
       r.approvers, (r.policy ->> 'prevent_self_review')::boolean AS prevent_self_review,
       r.policy -> 'reason_required' AS reason_required,
       (r.policy ->> 'editor_may_approve')::boolean AS editor_may_approve
FROM approval_request AS r WHERE r.id = :id FOR NO KEY UPDATE
""")
_TAKE_REQUEST_OF_CALL = text("""
SELECT 1 FROM approval_request AS r JOIN tool_call AS c ON c.id = r.call_id AND c.ask_no = r.ask_no
WHERE c.id = :call FOR NO KEY UPDATE OF r
""")
_BALLOT_STATE = text(f"""
SELECT clock_timestamp() AS now, h.seq, h.hash, v.digest, v.editor_team_id, v.editor_user_id,
       {INSTRUCTORS.format(call="r.call_id")} AS instructors,
       p.nonce, p.surface::text AS surface, p.channel_id AS place_channel, p.ts AS place_ts,
       p.team_id AS place_team, p.user_id AS place_user,
       k.owner_team_id AS asker_team, k.owner_user_id AS asker_user,
       (SELECT team_id || '/' || user_id FROM decision WHERE request_id = :id) AS decided_by,
       (SELECT coalesce(json_agg(json_build_array(team_id, user_id, verdict, id, revision)), '[]'::json)
        FROM vote WHERE request_id = :id AND superseded_by IS NULL) AS votes
FROM audit_head AS h
JOIN approval_request AS r ON r.id = :id
JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
LEFT JOIN card_place AS p ON p.nonce = CAST(:nonce AS text) AND p.request_id = :id
LEFT JOIN agent_run AS a ON a.id = r.run_id
LEFT JOIN api_key AS k ON k.id = coalesce(a.api_key_id, r.api_key_id)
WHERE h.subject = :subject FOR NO KEY UPDATE OF h
""")  # noqa: S608 - constants
_REVISION = text("""
SELECT r.policy, v.action, v.digest FROM approval_request AS r JOIN request_revision AS v ON v.request_id = r.id
WHERE r.id = :id AND v.n = :n
""")
_REQUEST_OF_CALL = text("""
SELECT r.id, v.digest FROM approval_request AS r
JOIN request_revision AS v ON v.request_id = r.id AND v.n = 1
JOIN tool_call AS c ON c.id = r.call_id AND c.ask_no = r.ask_no WHERE c.id = :call
""")
_TAKE_CLIENT_ID = text("SELECT pg_advisory_xact_lock(hashtextextended(:principal || chr(10) || :client, 0))")
_REQUEST_OF_CLIENT = text(
    "SELECT id, content_digest FROM approval_request WHERE principal = :principal AND client_id = :client"
)
_CALL_OF_REQUEST = text("""
SELECT r.id, r.status::text AS status, r.call_id, c.run_id, r.team_id, r.channel_id,
       r.requester_team_id, r.requester_user_id, v.erased_at
FROM approval_request AS r JOIN tool_call AS c ON c.id = r.call_id
JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision WHERE r.id = :id
""")
# The clock as a subquery is read once, and so can bound the index scan; a volatile function in the condition itself
# would be called for every waiting row.
_EVERY_DUE = """
SELECT r.id, r.call_id, r.team_id, r.channel_id, r.revision, v.digest,
       r.policy ->> 'on_timeout' = 'escalate' AND r.escalated_at IS NULL AS escalates, r.approvers,
       r.policy -> 'escalate_to' AS escalate_to, (r.policy ->> 'timeout')::float AS seconds,
       r.policy -> 'remind_at' AS remind_at
FROM approval_request AS r JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
WHERE r.status = 'waiting' AND r.expires_at <= (SELECT clock_timestamp())
"""
_DUE = text(
    _EVERY_DUE
    + " AND r.id <> ALL(CAST(:but AS uuid[])) ORDER BY r.expires_at LIMIT :limit FOR NO KEY UPDATE OF r SKIP LOCKED"
)
_DUE_ONE = text(_EVERY_DUE + " AND r.id = :id FOR NO KEY UPDATE OF r SKIP LOCKED")
_TAKE_OPEN_OF_RUNS = text("""
SELECT 1 FROM approval_request WHERE run_id = ANY(:runs) AND status = 'waiting' ORDER BY id FOR NO KEY UPDATE
""")
_OPEN_OF_RUNS = text("""
SELECT r.id, r.call_id, r.team_id, r.channel_id, r.revision, r.approvers, v.digest
FROM approval_request AS r JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
WHERE r.run_id = ANY(:runs) AND r.status = 'waiting' ORDER BY r.id
""")
_APPROVED_OF_RUNS = text("""
SELECT r.id, r.team_id, r.channel_id FROM tool_call AS c
JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
WHERE c.run_id = ANY(:runs) AND c.state = 'ready' ORDER BY r.id
""")

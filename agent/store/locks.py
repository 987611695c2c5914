"""What use cases lock and read before they decide, in the lock order: run, request, tool call, execution, audit head.

Rows are locked FOR NO KEY UPDATE: a foreign key's check (FOR KEY SHARE) of another transaction, which comes in no order
of ours, does not wait for it and so cannot close a circle.

Who ends a waiting request may take its chain's head before its call: while a request waits, nobody takes that head
behind the call.

A statement that judges time or counts votes starts after the lock was taken: PostgreSQL evaluates a locking
statement's own expressions before it waits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.transaction import Connection, query
from agent.store import pause
from agent.store.instructors import INSTRUCTORS
from signoff.values import Person


async def clock(connection: Connection) -> datetime:
    """The database's clock: the only one that judges deadlines."""
    now: datetime = (await connection.execute(text("SELECT clock_timestamp()"))).scalar_one()
    return now


async def new_call(connection: Connection, call_id: UUID) -> Row[Any] | None:
    """A call to be judged, locked behind its run."""
    await connection.execute(_TAKE_RUN_OF_CALL, {"call": call_id})
    return (await connection.execute(_NEW_CALL, {"call": call_id})).one_or_none()


async def request(connection: Connection, request_id: UUID) -> Row[Any] | None:
    """A request, locked, with what votes on it depend on of the policy it was opened under.

    Its revision is read behind the lock (``ballot``, ``revision``): a join with the present revision would lose
    the row when that changes while the statement waits for it.
    """
    return (await connection.execute(_REQUEST, {"id": request_id})).one_or_none()


async def request_behind(connection: Connection, call_id: UUID) -> None:
    """Lock the request that stands for a call whose run is locked; comes before the call's own lock."""
    await connection.execute(_TAKE_REQUEST_OF_CALL, {"call": call_id})


async def request_for_vote(
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


async def due(connection: Connection, limit: int, but: Collection[UUID] = ()) -> Sequence[Row[Any]]:
    """Overdue waiting requests that nobody else holds, without those named."""
    return (await connection.execute(_DUE, {"limit": limit, "but": list(but)})).all()


async def due_one(connection: Connection, request_id: UUID) -> Sequence[Row[Any]]:
    """This one, if it is."""
    return (await connection.execute(_DUE_ONE, {"id": request_id})).all()


async def reminders_due(connection: Connection, limit: int, but: Collection[UUID] = ()) -> Sequence[Row[Any]]:
    """Waiting requests of which people should be reminded now, and that nobody else holds, without those named."""
    return (await connection.execute(_REMINDERS_DUE, {"limit": limit, "but": list(but)})).all()


async def reminder_due(connection: Connection, request_id: UUID) -> Sequence[Row[Any]]:
    """This one, if it is."""
    return (await connection.execute(_REMINDER_DUE, {"id": request_id})).all()


async def voters(connection: Connection, request_ids: Sequence[UUID]) -> dict[UUID, set[Person]]:
    """Who has voted on the present revisions."""
    found: dict[UUID, set[Person]] = {}
    for row in await connection.execute(_VOTERS, {"ids": list(request_ids)}):
        found.setdefault(row.request_id, set()).add(Person(row.team_id, row.user_id))
    return found


async def revision(connection: Connection, request_id: UUID, n: int) -> Row[Any]:
    """One revision's action and digest, and the policy of its request."""
    return (await connection.execute(_REVISION, {"id": request_id, "n": n})).one()


async def open_requests(connection: Connection, runs: Sequence[UUID]) -> Sequence[Row[Any]]:
    """The waiting requests of these runs, locked."""
    await connection.execute(_TAKE_OPEN_OF_RUNS, {"runs": list(runs)})
    return (await connection.execute(_OPEN_OF_RUNS, {"runs": list(runs)})).all()


async def approved_requests(connection: Connection, runs: Sequence[UUID]) -> Sequence[Row[Any]]:
    """The requests of these runs whose calls may run and have not begun. Nothing is locked: their runs are."""
    return (await connection.execute(_APPROVED_OF_RUNS, {"runs": list(runs)})).all()


async def run_with_descendants(connection: Connection, run_id: UUID) -> Sequence[UUID]:
    """The run and all that it started, those below first: the order in which they are locked."""
    return list((await connection.execute(_FAMILY, {"id": run_id})).scalars())


async def asked_action(connection: Connection, call_id: UUID) -> bytes | None:
    """The action that people are asked about for a call whose request is locked; the call is locked, too."""
    _, found = await query(connection, _TAKE_CALL, _ASKED_ACTION, call=call_id)
    return bytes(found[0].action) if found else None


async def request_of_call(connection: Connection, call_id: UUID) -> Row[Any] | None:
    """The request that stands for the call now, with its first digest."""
    return (await connection.execute(_REQUEST_OF_CALL, {"call": call_id})).one_or_none()


async def request_of_client(connection: Connection, principal: str, client_id: str) -> Row[Any] | None:
    """The request of that name, once nobody else is opening it; a second opener waits here for the first."""
    key = {"principal": principal, "client": client_id}
    await connection.execute(_TAKE_CLIENT_ID, key)
    return (await connection.execute(_REQUEST_OF_CLIENT, key)).one_or_none()


async def expired_call(connection: Connection, request_id: UUID) -> Row[Any] | None:
    """A run's request with its call, to be asked again."""
    return (await connection.execute(_CALL_OF_REQUEST, {"id": request_id})).one_or_none()


async def run_of_execution(connection: Connection, execution_id: UUID) -> UUID | None:
    """Which run an execution belongs to."""
    found: UUID | None = (
        await connection.execute(_RUN_OF_EXECUTION, {"id": execution_id})
    ).scalar_one_or_none()
    return found


async def run_of_call(connection: Connection, call_id: UUID) -> UUID | None:
    """Which run a call belongs to."""
    found: UUID | None = (await connection.execute(_RUN_OF_CALL, {"id": call_id})).scalar_one_or_none()
    return found


async def execution(connection: Connection, execution_id: UUID) -> Row[Any] | None:
    """An execution and its call, locked, with the request that allowed it."""
    return (await connection.execute(_EXECUTION, {"id": execution_id})).one_or_none()


async def call(connection: Connection, call_id: UUID) -> Row[Any] | None:
    """A call, locked, with the request that stands for it and its decision."""
    _, found = await query(connection, _TAKE_CALL, _CALL, call=call_id)
    return found[0] if found else None


async def ready_call(connection: Connection, call_id: UUID) -> tuple[Row[Any], Row[Any] | None] | None:
    """`call` behind its run, with the head of its chain if the call is ready, in one round trip.

    A parked run works again when its last waiting call was decided.
    """
    *_, found, heads = await query(
        connection, pause.HOLD, _TAKE_RUN_OF_CALL, _RESUME, _TAKE_CALL, _CALL, _HEAD_OF_CALL, call=call_id
    )
    return (found[0], heads[0] if heads else None) if found else None


async def lost_executions(connection: Connection, limit: int, but: Collection[UUID] = ()) -> Sequence[UUID]:
    """Attempts whose worker has not been heard of for longer than its lease, without those named."""
    return list((await connection.execute(_LOST, {"limit": limit, "but": list(but)})).scalars())


_TAKE_RUN_OF_CALL = text("""
SELECT 1 FROM agent_run WHERE id = (SELECT run_id FROM tool_call WHERE id = :call) FOR NO KEY UPDATE
""")
_NEW_CALL = text("""
SELECT c.state::text AS state, c.run_id, c.blocking, c.ask_no, r.awaiting_calls, r.team_id, r.channel_id,
       r.ancestor_ids,
       r.status IN ('denied', 'failed', 'cancelled') AND c.repeats IS NULL AS in_vain
FROM tool_call AS c JOIN agent_run AS r ON r.id = c.run_id WHERE c.id = :call FOR NO KEY UPDATE OF c
""")
_REQUEST = text("""
SELECT r.id, r.call_id, r.status::text AS status, r.revision, r.team_id, r.channel_id, r.approvals_required,
       r.expires_at, r.decided_at, r.requester_team_id, r.requester_user_id,
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
_ONE = " AND r.id = :id FOR NO KEY UPDATE OF r SKIP LOCKED"
_SOME = (
    " AND r.id <> ALL(CAST(:but AS uuid[])) ORDER BY {order} LIMIT :limit FOR NO KEY UPDATE OF r SKIP LOCKED"
)
_DUE = text(_EVERY_DUE + _SOME.format(order="r.expires_at"))
_DUE_ONE = text(_EVERY_DUE + _ONE)
_EVERY_REMINDER = """
SELECT r.id, r.team_id, r.channel_id, r.expires_at, r.approvers, r.policy -> 'notify' AS notify,
       r.policy -> 'remind_at' AS remind_at, (r.policy ->> 'timeout')::float AS seconds,
       (r.policy ->> 'prevent_self_review')::boolean AS prevent_self_review,
       (r.policy ->> 'editor_may_approve')::boolean AS editor_may_approve,
       r.requester_team_id, r.requester_user_id, v.editor_team_id, v.editor_user_id
FROM approval_request AS r JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
WHERE r.status = 'waiting' AND r.remind_next <= (SELECT clock_timestamp())
"""
_REMINDERS_DUE = text(_EVERY_REMINDER + _SOME.format(order="r.remind_next"))
_REMINDER_DUE = text(_EVERY_REMINDER + _ONE)
_VOTERS = text("""
SELECT v.request_id, v.team_id, v.user_id FROM vote AS v
JOIN approval_request AS r ON r.id = v.request_id AND r.revision = v.revision
WHERE v.request_id = ANY(:ids) AND v.superseded_by IS NULL
""")
_TAKE_OPEN_OF_RUNS = text("""
SELECT 1 FROM approval_request WHERE run_id = ANY(:runs) AND status = 'waiting' ORDER BY id FOR NO KEY UPDATE
""")
_APPROVED_OF_RUNS = text("""
SELECT r.id, r.team_id, r.channel_id FROM tool_call AS c
JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
WHERE c.run_id = ANY(:runs) AND c.state = 'ready' ORDER BY r.id
""")
_OPEN_OF_RUNS = text("""
SELECT r.id, r.call_id, r.team_id, r.channel_id, r.revision, r.approvers, v.digest
FROM approval_request AS r JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
WHERE r.run_id = ANY(:runs) AND r.status = 'waiting' ORDER BY r.id
""")
_FAMILY = text("""
WITH RECURSIVE family AS (
    SELECT id, 0 AS depth FROM agent_run WHERE id = :id
    UNION ALL SELECT r.id, f.depth + 1 FROM agent_run AS r JOIN family AS f ON r.parent_run_id = f.id
)
SELECT id FROM family ORDER BY depth DESC, id
""")
_REQUEST_OF_CALL = text("""
SELECT r.id, v.digest FROM approval_request AS r
JOIN request_revision AS v ON v.request_id = r.id AND v.n = 1
JOIN tool_call AS c ON c.id = r.call_id AND c.ask_no = r.ask_no WHERE c.id = :call
""")
_ASKED_ACTION = text("""
SELECT v.action FROM tool_call AS c
JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
WHERE c.id = :call AND c.state = 'asked'
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
_RUN_OF_EXECUTION = text("""
SELECT c.run_id FROM execution AS e JOIN tool_call AS c ON c.id = e.call_id WHERE e.id = :id
""")
_RUN_OF_CALL = text("SELECT run_id FROM tool_call WHERE id = :id")
_EXECUTION = text(f"""
SELECT e.id, e.status::text AS status, e.attempt, e.lease_epoch, e.idempotent, e.lease_until, e.worker,
       e.lease_until <= clock_timestamp() AS lease_over,
       e.result, e.error,
       c.id AS call_id, c.state::text AS call_state, c.tool, c.raw_arguments, c.blocking, c.repeats,
       c.run_id, a.channel_id AS run_channel_id, a.thread_ts,
       r.id AS request_id, r.team_id, r.channel_id, r.approvers,
       (r.policy ->> 'prevent_self_review')::boolean AS prevent_self_review,
       CASE WHEN v.editor_user_id IS NOT NULL THEN v.action END AS edited_action,
       (SELECT b.action FROM approval_request AS o JOIN request_revision AS b ON b.request_id = o.id AND b.n = 1
        WHERE o.call_id = c.id AND o.ask_no = 1) AS proposed_action,
       coalesce(r.requester_team_id, a.requester_team_id) AS requester_team_id,
       coalesce(r.requester_user_id, a.requester_user_id) AS requester_user_id,
       k.owner_team_id AS asker_team, k.owner_user_id AS asker_user,
       {INSTRUCTORS.format(call="c.id")} AS instructors,
       EXISTS (SELECT 1 FROM settlement WHERE execution_id = e.id) AS settled
FROM execution AS e JOIN tool_call AS c ON c.id = e.call_id JOIN agent_run AS a ON a.id = c.run_id
LEFT JOIN api_key AS k ON k.id = a.api_key_id
LEFT JOIN approval_request AS r ON r.id = e.request_id
LEFT JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
WHERE e.id = :id FOR NO KEY UPDATE OF c, e
""")  # noqa: S608 - constants
_TAKE_CALL = text("SELECT 1 FROM tool_call WHERE id = :call FOR NO KEY UPDATE")
_RESUME = text("""
UPDATE agent_run SET status = 'working', updated_at = clock_timestamp()
WHERE id = (SELECT run_id FROM tool_call WHERE id = :call) AND status = 'pending_approval'
  AND NOT EXISTS (SELECT 1 FROM tool_call AS c WHERE c.run_id = agent_run.id AND c.state = 'asked' AND c.blocking)
""")
_HEAD_OF_CALL = text("""
SELECT subject, seq, hash, clock_timestamp() AS at FROM audit_head
WHERE subject = (SELECT coalesce('request:' || r.id, 'run:' || c.run_id)
                 FROM tool_call AS c LEFT JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
                 WHERE c.id = :call AND c.state = 'ready')
FOR NO KEY UPDATE
""")
_CALL = text(f"""
SELECT c.id, c.run_id, c.state::text AS state, c.blocking, c.tool, c.raw_arguments, c.ask_no, c.repeats,
       c.answer_kind::text AS answer_kind, c.answer, c.action, c.digest,
       a.status IN ('denied', 'failed', 'cancelled') AND c.repeats IS NULL AS in_vain,
       {pause.run_is_paused("a")} AS paused,
       r.id AS request_id, r.team_id, r.channel_id, r.voided_at, r.policy ->> 'on_reject' AS on_reject,
       d.outcome::text AS outcome, d.digest AS decided_digest, d.user_id AS decided_by, v.action AS decided_action,
       v.editor_team_id, v.editor_user_id, v.changes,
       (SELECT coalesce(max(attempt), 0) FROM execution WHERE call_id = c.id) AS attempts,
       (SELECT s.verdict = 'retry' FROM execution AS e LEFT JOIN settlement AS s ON s.execution_id = e.id
        WHERE e.call_id = c.id ORDER BY e.attempt DESC LIMIT 1) AS wanted_again
FROM tool_call AS c JOIN agent_run AS a ON a.id = c.run_id
LEFT JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
LEFT JOIN decision AS d ON d.request_id = r.id
LEFT JOIN request_revision AS v ON v.request_id = r.id AND v.n = d.revision
WHERE c.id = :call
""")  # noqa: S608 - constants
_LOST = text("""
SELECT id FROM execution WHERE status = 'claimed' AND lease_until <= (SELECT clock_timestamp())
  AND call_id IS NOT NULL AND id <> ALL(CAST(:but AS uuid[])) ORDER BY lease_until LIMIT :limit
""")

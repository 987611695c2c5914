"""Attempts at calls: locked, begun and finished."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.transaction import Connection, Transaction, fetch, query
from agent.domain.call_answers import EndedCall
from agent.domain.changes import approval_note, between
from agent.domain.request import ExecutionStatus
from agent.store.outbox import Destination
from agent.store.rows import columns, row_as
from signoff.values import Person


async def run_of(connection: Connection, execution_id: UUID) -> UUID | None:
    """Return the run of an attempt's call; None if a program proposed it or there is no such attempt."""
    found: UUID | None = (
        await connection.execute(_RUN_OF_EXECUTION, {"id": execution_id})
    ).scalar_one_or_none()
    return found


@dataclass(frozen=True, slots=True)
class CallAttempt:
    """An attempt at a call, with what a report, a settlement or a rescue needs to know of the call."""

    id: UUID
    status: ExecutionStatus
    attempt: int
    worker: str
    """Or the program's principal."""
    lease_over: bool
    result: str | None
    error: str | None
    late_result: str | None
    unsettled: bool
    subject: str
    """The request's, or without one the run's."""
    request_id: UUID | None
    destination: Destination | None
    seconds: float
    """Since it began."""
    run_id: UUID | None
    agent: str
    call: EndedCall
    idempotent: bool
    read_only: bool
    outside: bool

    @property
    def actor(self) -> str:
        return self.worker if self.outside else f"worker:{self.worker}"


async def lock(connection: Connection, execution_id: UUID) -> CallAttempt | None:
    """Lock an attempt and its call, behind their run if there is one."""
    _, found = await query(connection, TAKE, READ, ids=[execution_id])
    return attempt(found[0]) if found else None


def attempt(row: Row[Any]) -> CallAttempt:
    """Read a row of ``READ``, after its lock."""
    return row_as(CallAttempt, row, call=ended_call(row))


async def lost(connection: Connection, limit: int, but: Collection[UUID] = ()) -> Sequence[UUID]:
    """Attempts with expired leases, except ``but``."""
    return list((await connection.execute(_LOST, {"limit": limit, "but": list(but)})).scalars())


def ended_call(row: Row[Any]) -> EndedCall:
    """The row has canonical bytes and approving votes' ``notes``."""
    return EndedCall(
        id=row.call_id,
        tool=row.tool,
        raw_arguments=row.raw_arguments or "",
        blocking=row.blocking,
        request_id=row.request_id,
        on_reject=None,
        repeats=row.repeats,
        approval=approval_note(between(row.proposed_action, row.edited_action), row.notes or ()),
    )


@dataclass(frozen=True, slots=True)
class NewExecution:
    """``claim_hash``: of the token with which the program ``worker`` reports."""

    id: UUID
    call_id: UUID
    request_id: UUID | None
    attempt: int
    digest: bytes
    idempotent: bool
    read_only: bool
    worker: str
    lease_seconds: float
    policy_epoch: int
    claim_hash: bytes | None
    at: datetime


def insert(tx: Transaction, new: NewExecution) -> None:
    """Claim the ready call, too; the database refuses a second open attempt."""
    tx.add_rows(_BEGIN, [columns(new)])


def finish(tx: Transaction, execution_id: UUID, status: ExecutionStatus, outcome: str, at: datetime) -> None:
    """End a claimed attempt with its result or its error; an attempt that has ended stays as it is."""
    succeeded = status is ExecutionStatus.SUCCEEDED
    row = {
        "id": execution_id,
        "status": status.value,
        "result": outcome if succeeded else None,
        "error": None if succeeded else outcome,
        "at": at,
    }
    tx.add_rows(_FINISH, [row])


def end_doubt(tx: Transaction, execution_id: UUID, result: str, at: datetime) -> None:
    """The doubt's own facts stay."""
    tx.add(_END_DOUBT, id=execution_id, result=result, at=at)


def record_late(tx: Transaction, execution_id: UUID, outcome: str) -> None:
    """The outcome stays."""
    tx.add(_LATE, id=execution_id, outcome=outcome)


@dataclass(frozen=True, slots=True)
class DoubtVote:
    """What a person says of an attempt in doubt."""

    execution_id: UUID
    verdict: Literal["retry", "done"]
    by: Person
    note: str | None
    at: datetime


def settle(tx: Transaction, vote: DoubtVote) -> None:
    """A second verdict fails on the key."""
    tx.add(_SETTLE, **columns(vote))


def want_retry(tx: Transaction, vote: DoubtVote) -> None:
    """The vote does not complete the quorum."""
    tx.add(_WANT_RETRY, **columns(vote))


@dataclass(frozen=True, slots=True)
class ProgramAttempt:
    """As its program claimed it."""

    execution_id: UUID
    attempt: int
    call_id: UUID
    run_id: UUID | None
    request_id: UUID | None
    agent: str
    tool: str
    worker: str
    status: ExecutionStatus
    read_only: bool
    claim_hash: bytes


async def find_by_token(connection: Connection, call_id: UUID, claim_hash: bytes) -> ProgramAttempt | None:
    """Return the attempt that a program claimed with this token, or None if no attempt has it."""
    found = await fetch(connection, _OF_PROGRAM, call=call_id, hash=claim_hash)
    return row_as(ProgramAttempt, found[0]) if found else None


async def find_leased(connection: Connection, call_id: UUID) -> ProgramAttempt | None:
    """A program's open attempt, while its lease lasts."""
    found = await fetch(connection, _OF_PROGRAM, call=call_id, hash=None)
    return row_as(ProgramAttempt, found[0]) if found else None


async def renew_leases(
    connection: Connection, execution_ids: Collection[UUID], worker: str, lease_seconds: float
) -> list[UUID]:
    """Returns which were renewed: of the rest, the lease is lost or the row is locked."""
    rows = await fetch(connection, _BEAT, ids=list(execution_ids), worker=worker, seconds=lease_seconds)
    return [row.id for row in rows]


_BEGIN = text("""
WITH e AS (
    SELECT * FROM json_to_recordset(:rows) AS t (
        id uuid, call_id uuid, request_id uuid, attempt int, digest bytea, idempotent boolean, read_only boolean,
        worker text, lease_seconds float, policy_epoch int, claim_hash bytea, at timestamptz)
    LIMIT (SELECT CAST(:many AS int))
), claimed AS (
    UPDATE tool_call AS c SET state = 'claimed', lapse_at = NULL FROM e WHERE c.id = e.call_id AND c.state = 'ready'
)
INSERT INTO execution (id, call_id, executor, request_id, attempt, digest, idempotent, read_only, worker, lease_until,
                       policy_epoch, claim_hash, started_at)
SELECT id, call_id, CASE WHEN claim_hash IS NULL THEN CAST('here' AS call_executor) ELSE 'program' END, request_id,
       attempt, digest, idempotent, read_only, worker, clock_timestamp() + make_interval(secs => lease_seconds),
       policy_epoch, claim_hash, at
FROM e
""")
_FINISH = text("""
UPDATE execution AS x SET status = e.status, result = e.result, error = e.error, finished_at = e.at
FROM (SELECT * FROM json_to_recordset(:rows) AS t (id uuid, status execution_status, result text, error text,
                                                       at timestamptz)
      LIMIT (SELECT CAST(:many AS int))) AS e
WHERE x.id = e.id AND x.status = 'claimed'
""")
_END_DOUBT = text("""
UPDATE execution SET status = 'succeeded', result = :result, finished_at = :at
WHERE id = :id AND status = 'in_doubt'
""")
_LATE = text("UPDATE execution SET late_result = :outcome WHERE id = :id AND late_result IS NULL")
_SETTLE = text("""
INSERT INTO settlement (execution_id, verdict, team_id, user_id, note, created_at)
VALUES (:execution_id, :verdict, :by_team_id, :by_user_id, :note, :at)
""")
_WANT_RETRY = text("""
INSERT INTO retry_vote (execution_id, team_id, user_id, note, created_at)
VALUES (:execution_id, :by_team_id, :by_user_id, :note, :at)
""")
# Skip locked rows until the next heartbeat: waiting for one could expire all leases of the process.
_BEAT = text("""
UPDATE execution SET lease_until = clock_timestamp() + make_interval(secs => :seconds)
WHERE id IN (SELECT id FROM execution WHERE id = ANY(:ids) AND worker = :worker AND status = 'claimed'
             FOR NO KEY UPDATE SKIP LOCKED)
RETURNING id
""")
_RUN_OF_EXECUTION = text("""
SELECT c.run_id FROM execution AS e JOIN tool_call AS c ON c.id = e.call_id WHERE e.id = :id
""")
_OF_PROGRAM = text("""
SELECT e.id AS execution_id, e.attempt, e.call_id, c.run_id, e.request_id, c.agent, c.tool, e.worker,
       e.status::text AS status, e.read_only, e.claim_hash
FROM execution AS e JOIN tool_call AS c ON c.id = e.call_id
WHERE e.call_id = :call AND e.executor = 'program'
  AND CASE WHEN CAST(:hash AS bytea) IS NULL THEN e.status = 'claimed' AND e.lease_until > clock_timestamp()
      ELSE e.claim_hash = :hash END
""")
TAKE = text("""
SELECT e.id FROM execution AS e JOIN tool_call AS c ON c.id = e.call_id
WHERE e.id = ANY (ARRAY(SELECT unnest(CAST(:ids AS uuid[])))) ORDER BY c.id FOR NO KEY UPDATE OF c, e
""")
READ = text("""
SELECT e.id, e.status::text AS status, e.attempt, e.idempotent, e.read_only, e.worker,
       e.claim_hash IS NOT NULL AS outside, e.result, e.error, e.late_result,
       e.lease_until <= clock_timestamp() AS lease_over, (SELECT clock_timestamp()) AS at,
       extract(epoch FROM clock_timestamp() - e.started_at)::float AS seconds,
       e.status = 'in_doubt' AND c.state = 'in_doubt'
           AND NOT EXISTS (SELECT 1 FROM settlement WHERE execution_id = e.id) AS unsettled,
       coalesce('request:' || r.id, 'run:' || c.run_id) AS subject,
       c.id AS call_id, c.agent, c.tool, c.raw_arguments, c.blocking, c.repeats,
       c.run_id, r.id AS request_id, r.team_id, r.channel_id,
       CASE WHEN v.editor_user_id IS NOT NULL THEN v.action END AS edited_action,
       (SELECT b.action FROM approval_request AS o JOIN request_revision AS b ON b.request_id = o.id AND b.n = 1
        WHERE o.call_id = c.id AND o.ask_no = 1) AS proposed_action,
       (SELECT json_agg(b.reason ORDER BY b.id) FROM vote AS b
        WHERE b.request_id = r.id AND b.revision = r.revision AND b.superseded_by IS NULL
          AND b.verdict = 'approve' AND btrim(b.reason) <> '') AS notes
FROM execution AS e JOIN tool_call AS c ON c.id = e.call_id
LEFT JOIN approval_request AS r ON r.id = e.request_id
LEFT JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
WHERE e.id = ANY (ARRAY(SELECT unnest(CAST(:ids AS uuid[]))))
""")
_LOST = text("""
SELECT id FROM execution WHERE status = 'claimed' AND lease_until <= (SELECT clock_timestamp())
  AND id <> ALL(CAST(:but AS uuid[])) ORDER BY lease_until LIMIT :limit
""")

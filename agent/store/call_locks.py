"""Tool calls, locked and read: by the call, its run, or its request."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.transaction import Connection, fetch, query
from agent.domain.audit import request_subject
from agent.domain.call_answers import EndedCall
from agent.domain.changes import approval_note
from agent.domain.limits import Use
from agent.domain.people import Exclusion
from agent.domain.request import RequestStatus
from agent.domain.request_view import Change
from agent.domain.run import AnswerKind, CallAnswer, CallExecutor, CallState
from agent.store import audit, claimable_calls, concurrency, consent_terms, exclusions, limits, pause, runs
from agent.store.audit import ChainHead
from agent.store.claimable_calls import ClaimableCall
from agent.store.concurrency import ConcurrencyLimit, Room
from agent.store.limits import LimitRoom
from agent.store.outbox import Destination
from agent.store.rows import row_as
from agent.store.views.requests import stored_changes
from signoff.values import Person


@dataclass(frozen=True, slots=True)
class NewCall:
    """A call, locked, with what is read of its run before its action is evaluated or refused."""

    state: CallState
    run_id: UUID
    agent: str
    blocking: bool
    ask_no: int
    awaiting_calls: int
    destination: Destination | None
    ancestor_ids: tuple[UUID, ...]
    unneeded: bool
    policy_epoch: int
    """In force until COMMIT."""


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A call as stored, with its request, decision, latest attempt and the policy epoch in force."""

    id: UUID
    run_id: UUID | None
    """None: a program proposes it."""
    agent: str
    executor: CallExecutor
    lapsed: bool
    """The time is over in which a program may begin it."""
    state: CallState
    blocking: bool
    tool: str
    raw_arguments: str
    ask_no: int
    repeats: UUID | None
    answer: CallAnswer | None
    action: bytes | None
    unneeded: bool
    """Its run has ended, and it repeats no expired call."""
    parked: bool
    paused: bool
    request_id: UUID | None
    destination: Destination | None
    subject: str
    """The request's, or without one the run's."""
    excluded: tuple[Exclusion, ...]
    """From the request."""
    voided: bool
    on_reject: str | None
    outcome: RequestStatus | None
    decided_digest: bytes | None
    recorded_digest: bytes | None
    """In the audit log."""
    terms_stand: bool
    """The terms of consent are those of the audit log."""
    decided_by: str | None
    decided_action: bytes | None
    editor: Person | None
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    attempts: int
    wanted_again: bool | None
    """The last attempt was settled as Retry."""
    policy_epoch: int

    @property
    def ended(self) -> EndedCall:
        return EndedCall(
            self.id,
            self.tool,
            self.raw_arguments,
            self.blocking,
            self.request_id,
            self.on_reject,
            self.repeats,
            approval_note((), self.notes),
        )


async def run_of(connection: Connection, call_id: UUID) -> UUID | None:
    """None also if a program proposed it."""
    found: UUID | None = (await connection.execute(_RUN_OF_CALL, {"id": call_id})).scalar_one_or_none()
    return found


async def run_to_judge(connection: Connection, call_id: UUID) -> UUID | None:
    """Like ``run_of``; also holds the pause switch."""
    _, found = await query(connection, pause.HOLD, _RUN_OF_CALL, id=call_id)
    return found[0].run_id if found else None


async def find(connection: Connection, call_id: UUID) -> StoredCall | None:
    """Return a call without locking it, or None if there is none."""
    found = await fetch(connection, _CALL, calls=[call_id])
    return _stored(found[0]) if found else None


async def lock(connection: Connection, call_id: UUID) -> StoredCall | None:
    """Lock a call until COMMIT and read it after the lock; None if there is none."""
    _, found = await query(connection, _TAKE_CALLS, _CALL, calls=[call_id])
    return _stored(found[0]) if found else None


async def lock_all_asked(
    connection: Connection, request_ids: Sequence[UUID], *subjects: str
) -> dict[str, ChainHead]:
    """Lock the calls of locked waiting requests, then the heads of their chains and of ``subjects``."""
    every = [*map(request_subject, request_ids), *subjects]
    _, found = await query(connection, TAKE_ASKED, audit.LOCK_HEADS, ids=list(request_ids), subjects=every)
    return await audit.heads_of(connection, every, found)


async def lock_new(connection: Connection, call_id: UUID) -> NewCall | None:
    """Lock a call behind its run; holds the pause switch."""
    _, found = await query(connection, _TAKE_RUN_OF_CALL, _NEW_CALL, call=call_id)
    return row_as(NewCall, found[0]) if found else None


@dataclass(frozen=True, slots=True)
class ReadyCall:
    """A call locked behind its run, with its chain's head, if found."""

    call: StoredCall
    head: ChainHead | None
    room: Room
    limits: LimitRoom
    approved: ClaimableCall | None = None
    """What it is judged by, if that was asked for and nothing else has to be looked up."""


async def lock_ready(
    connection: Connection,
    call_ids: Collection[UUID],
    run_ids: Collection[UUID],
    subjects: Collection[str],
    bounds: Collection[ConcurrencyLimit] = (),
    uses: Collection[Use] = (),
    *,
    approved: Collection[UUID] = (),
    wait: bool,
) -> dict[UUID, ReadyCall]:
    """Lock calls, in any state, behind the runs that proposed them, with chain heads and the room under the limits.

    ``approved``: requests whose calls are read to be judged, too. ``wait``: for other transactions' locks.
    """
    bounded = (concurrency.TAKE if wait else concurrency.TRY, concurrency.COUNT) if bounds else ()
    limited = (limits.TAKE if wait else limits.TRY, limits.SUM) if uses else ()
    of_heads = (audit.TAKE_HEADS if wait else audit.TRY_HEADS,) if subjects else ()
    of_runs = (runs.TAKE if wait else runs.TRY,) if run_ids else ()
    one_by_one = (pause.HOLD, *of_runs, _TAKE_CALLS if wait else _TRY_CALLS, *bounded, *limited, *of_heads)
    locks = one_by_one if wait or bounded or limited else (_TRY_READY,)
    found = await query(
        connection,
        *locks,
        *((claimable_calls.READ,) if approved else ()),
        _CALL,
        calls=list(call_ids),
        runs=list(run_ids),
        subjects=list(subjects),
        claims=list(approved),
        **concurrency.parameters(bounds),
        **limits.parameters(uses, call_ids),
    )
    taken, ready = found[: len(locks)], found.pop()
    judged = {row.id: claimable_calls.from_row(row) for row in (found.pop() if approved else ())}
    plain = 2 + len(of_runs)
    counted = taken[plain : plain + len(bounded) + len(limited)]
    held, heads = audit.ids_and_heads([*taken[:plain], *taken[plain + len(counted) :]])
    room, left = Room(*counted[: len(bounded)]), LimitRoom(*counted[len(bounded) :])
    return {
        row.id: _ready(row, heads.get(row.subject), room, left, judged.get(row.id))
        for row in ready
        if row.id in held and (row.run_id is None or row.run_id in held)
    }


def _ready(
    row: Row[Any], head: Row[Any] | None, room: Room, left: LimitRoom, approved: ClaimableCall | None
) -> ReadyCall:
    return ReadyCall(_stored(row), audit.chain_head(head, row.at) if head else None, room, left, approved)


async def lock_asked(connection: Connection, call_id: UUID) -> bytes | None:
    """The pending action; also locks the call. The request must be locked."""
    _, found = await query(connection, _TAKE_CALLS, _ASKED_ACTION, call=call_id, calls=[call_id])
    return bytes(found[0].action) if found else None


def _stored(row: Row[Any]) -> StoredCall:
    answer = CallAnswer(AnswerKind(row.answer_kind), row.answer or "") if row.answer_kind else None
    return row_as(
        StoredCall,
        row,
        raw_arguments=row.raw_arguments or "",
        excluded=exclusions.from_json(row.excluded or ()),
        terms_stand=consent_terms.stand(row),
        answer=answer,
        changes=stored_changes(row.changes),
        notes=tuple(row.notes or ()),
    )


_RUN_OF_CALL = text("SELECT run_id FROM tool_call WHERE id = :id")
# One statement locks the run and holds the switch, to save a statement per evaluation.
_TAKE_RUN_OF_CALL = text("""
SELECT pg_advisory_xact_lock_shared(hashtextextended('signoff pause ' || current_schema(), 0))
FROM agent_run WHERE id = (SELECT run_id FROM tool_call WHERE id = :call) FOR NO KEY UPDATE
""")
TAKE_ASKED = text("""
SELECT id AS call_id FROM tool_call WHERE id = ANY (ARRAY(
    SELECT call_id FROM approval_request
    WHERE id = ANY (ARRAY(SELECT unnest(CAST(:ids AS uuid[])))) AND status = 'waiting'))
ORDER BY id FOR NO KEY UPDATE
""")
_NEW_CALL = text("""
SELECT c.state::text AS state, c.run_id, c.agent, c.blocking, c.ask_no, r.awaiting_calls, r.team_id, r.channel_id,
       r.ancestor_ids,
       r.status IN ('denied', 'failed', 'cancelled') AND c.repeats IS NULL AS unneeded,
       coalesce((SELECT max(epoch) FROM policy), 0) AS policy_epoch
FROM tool_call AS c JOIN agent_run AS r ON r.id = c.run_id WHERE c.id = :call FOR NO KEY UPDATE OF c
""")
# OFFSET 0 keeps PostgreSQL from joining whole tables.
_CALL = text("""
SELECT each.* FROM unnest(ARRAY(SELECT unnest(CAST(:calls AS uuid[])))) AS named (id)
JOIN LATERAL (
SELECT c.id, c.run_id, c.agent, c.executor::text AS executor, c.state::text AS state, c.blocking, c.tool,
       c.raw_arguments, c.ask_no, c.repeats, c.answer_kind::text AS answer_kind, c.answer, c.action,
       coalesce(a.status IN ('denied', 'failed', 'cancelled'), false) AND c.repeats IS NULL AS unneeded,
       coalesce(a.status = 'pending_approval', false) AS parked, clock_timestamp() AS at,
       coalesce(c.lapse_at <= clock_timestamp(), false) AS lapsed,
       EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', c.agent) OR scope = ANY (a.ancestor_agents)) AS paused,
       coalesce('request:' || r.id, 'run:' || c.run_id) AS subject,
       r.id AS request_id, r.team_id, r.channel_id, r.voided_at IS NOT NULL AS voided,
       rule.content ->> 'on_reject' AS on_reject, r.approvers, r.excluded, r.approvals_required, r.expires_at,
       r.requester_team_id, r.requester_user_id,
       (SELECT detail ->> 'terms' FROM audit_event
        WHERE subject = 'request:' || r.id AND event IN ('request.opened', 'request.edited', 'request.escalated')
        ORDER BY seq DESC LIMIT 1) AS terms_recorded,
       d.outcome::text AS outcome, d.digest AS decided_digest, d.user_id AS decided_by, v.action AS decided_action,
       (SELECT decode(detail ->> 'digest', 'hex') FROM audit_event
        WHERE subject = 'request:' || r.id AND event = 'request.decided') AS recorded_digest,
       v.editor_team_id, v.editor_user_id, v.changes,
       (SELECT json_agg(b.reason ORDER BY b.id) FROM vote AS b
        WHERE b.request_id = d.request_id AND b.revision = d.revision AND b.superseded_by IS NULL
          AND b.verdict = 'approve' AND btrim(b.reason) <> '') AS notes,
       (SELECT coalesce(max(attempt), 0) FROM execution WHERE call_id = c.id) AS attempts,
       (SELECT s.verdict = 'retry' FROM execution AS e LEFT JOIN settlement AS s ON s.execution_id = e.id
        WHERE e.call_id = c.id ORDER BY e.attempt DESC LIMIT 1) AS wanted_again,
       coalesce((SELECT max(epoch) FROM policy), 0) AS policy_epoch
FROM tool_call AS c LEFT JOIN agent_run AS a ON a.id = c.run_id
LEFT JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
LEFT JOIN rule ON rule.digest = r.rule_digest
LEFT JOIN decision AS d ON d.request_id = r.id
LEFT JOIN request_revision AS v ON v.request_id = r.id AND v.n = d.revision
WHERE c.id = named.id OFFSET 0
) AS each ON true
""")
_TAKE_CALLS = text("""
SELECT id FROM tool_call WHERE id = ANY (ARRAY(SELECT unnest(CAST(:calls AS uuid[]))))
ORDER BY id FOR NO KEY UPDATE
""")
_TRY_CALLS = text("""
SELECT id FROM tool_call WHERE id = ANY (ARRAY(SELECT unnest(CAST(:calls AS uuid[]))))
ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
""")
# One statement, because nothing waits: each part depends on those before. Nothing is locked while the switch is turned.
_TRY_READY = text("""
WITH switch AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock_shared(hashtextextended('signoff pause ' || current_schema(), 0)) AS held
), run AS MATERIALIZED (
    SELECT a.id FROM agent_run AS a
    WHERE a.id = ANY (ARRAY(SELECT unnest(CAST(:runs AS uuid[])))) AND (SELECT held FROM switch)
    ORDER BY a.id FOR NO KEY UPDATE OF a SKIP LOCKED
), call AS MATERIALIZED (
    SELECT c.id FROM tool_call AS c
    WHERE c.id = ANY (ARRAY(SELECT unnest(CAST(:calls AS uuid[])))) AND (SELECT held FROM switch)
      AND (SELECT count(*) FROM run) >= 0
    ORDER BY c.id FOR NO KEY UPDATE OF c SKIP LOCKED
), head AS MATERIALIZED (
    SELECT h.subject, h.seq, h.hash FROM audit_head AS h
    WHERE h.subject = ANY (ARRAY(SELECT unnest(CAST(:subjects AS text[])))) AND (SELECT count(*) FROM call) >= 0
    ORDER BY h.subject FOR NO KEY UPDATE OF h SKIP LOCKED
)
SELECT CAST(NULL AS uuid) AS id, subject, seq, hash FROM head
UNION ALL SELECT id, NULL, NULL, NULL FROM run UNION ALL SELECT id, NULL, NULL, NULL FROM call
""")
_ASKED_ACTION = text("""
SELECT v.action FROM tool_call AS c
JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
WHERE c.id = :call AND c.state = 'asked'
""")

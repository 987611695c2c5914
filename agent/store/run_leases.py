"""The lease for one turn of a run; its epoch fences earlier holders."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.transaction import Connection, Transaction, fetch, query
from agent.domain.audit import run_subject
from agent.domain.run import RunLease, Turn
from agent.store import audit, runs, views
from agent.store.audit import ChainHead
from agent.store.rows import row_as
from agent.store.runs import LockedRun
from agent.store.views import Transcript


@dataclass(frozen=True, slots=True)
class TakenLease:
    """``inputs``: the model's at that time."""

    lease_epoch: int
    inputs: int
    model_failures: int
    at: datetime
    transcript: Transcript


async def take(
    connection: Connection, run_ids: Sequence[UUID], worker: str, seconds: float, *, wait: bool
) -> dict[UUID, TakenLease | None]:
    """Lease runs that are runnable and free. ``wait``: for other transactions' locks."""
    *_, locked, found_runs, messages, calls = await query(
        connection,
        *((runs.TAKE,) if wait else ()),
        _TAKE_LEASE,
        *views.TRANSCRIPTS,
        runs=list(run_ids),
        worker=worker,
        seconds=seconds,
    )
    found = views.transcripts(found_runs, messages, calls)
    return {
        row.id: row_as(TakenLease, row, transcript=found[row.id]) if row.taken else None for row in locked
    }


@dataclass(frozen=True, slots=True)
class HeldRun:
    """A run, locked, with what its calls say, and its chain's head if that was locked as well."""

    run: LockedRun
    asked: bool
    open: bool
    """The agent will get and answer an open background call's outcome."""
    webhooks: bool
    head: ChainHead | None


async def lock(connection: Connection, run_ids: Collection[UUID]) -> dict[UUID, HeldRun]:
    """The caller locks the heads of their chains."""
    _, found, states = await query(connection, runs.TAKE, runs.READ, _CALLS, runs=list(run_ids))
    return _held(found, states, [])


async def try_lock(
    connection: Connection, run_ids: Collection[UUID], subjects: Collection[str]
) -> dict[UUID, HeldRun]:
    """Skips runs and heads locked elsewhere."""
    *taken, found, states = await query(
        connection, _TRY, runs.READ, _CALLS, runs=list(run_ids), subjects=list(subjects)
    )
    known, heads = audit.ids_and_heads(taken)
    return _held([row for row in found if row.id in known], states, list(heads.values()))


def _held(
    found: Sequence[Row[Any]], states: Sequence[Row[Any]], heads: Sequence[Row[Any]]
) -> dict[UUID, HeldRun]:
    of_calls = {row.run_id: row for row in states}
    chains = {row.subject: row for row in heads}
    return {row.id: _held_run(row, of_calls.get(row.id), chains.get(run_subject(row.id))) for row in found}


def _held_run(run: Row[Any], calls: Row[Any] | None, head: Row[Any] | None) -> HeldRun:
    return HeldRun(
        runs.locked(run),
        asked=calls is not None and calls.asked,
        open=calls is not None and calls.open,
        webhooks=calls is None or calls.webhooks,
        head=audit.chain_head(head, run.at) if head else None,
    )


async def renew(connection: Connection, leases: Collection[RunLease], seconds: float) -> None:
    """Extend held leases to this many seconds from now; lost leases and rows locked elsewhere are skipped."""
    await fetch(
        connection,
        _BEAT,
        ids=[lease.run_id for lease in leases],
        epochs=[lease.epoch for lease in leases],
        seconds=seconds,
    )


def record_turn(
    tx: Transaction, run_id: UUID, number: int, turn: Turn, proposed: int, *, final: bool
) -> None:
    """Releases the lease. ``final``: the agent has answered and waits for nothing."""
    row = {
        "id": run_id,
        "turn": number,
        "tokens": turn.tokens,
        "heard": turn.heard,
        "proposed": proposed,
        "branches": turn.branches,
        "final": final,
        "answer": turn.text,
    }
    tx.add_rows(_RECORD_TURN, [row])


def release(tx: Transaction, run_id: UUID, heard: int) -> None:
    """Release the lease of a turn that needs no answer now, with the inputs the model has heard."""
    tx.add(_REST, run=run_id, heard=heard)


def drop(tx: Transaction, run_id: UUID, worker: str) -> None:
    """Release a run's lease if this worker holds it, without a turn or a note of a failure."""
    tx.add(_DROP, run=run_id, worker=worker)


async def postpone(connection: Connection, run_id: UUID, until: datetime) -> bool:
    """Releases the lease. True for the first failure in a row."""
    failures: int = (await connection.execute(_POSTPONE, {"run": run_id, "until": until})).scalar_one()
    return failures == 1


_TAKE_LEASE = text("""
WITH locked AS (
    SELECT id FROM agent_run WHERE id = ANY (ARRAY(SELECT unnest(CAST(:runs AS uuid[]))))
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
), taken AS (
    UPDATE agent_run AS run SET lease_epoch = run.lease_epoch + 1, lease_worker = :worker,
                                lease_until = clock_timestamp() + make_interval(secs => :seconds)
    FROM locked WHERE run.id = locked.id
      AND run.inputs > run.heard AND run.status IN ('working', 'pending_approval')
      AND (run.lease_until IS NULL OR run.lease_until <= clock_timestamp())
      AND (run.look_at IS NULL OR run.look_at <= clock_timestamp())
      AND NOT EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', run.agent) OR scope = ANY (run.ancestor_agents))
    RETURNING run.id, run.lease_epoch, run.inputs, run.model_failures, clock_timestamp() AS at
)
SELECT locked.id, taken.id IS NOT NULL AS taken, taken.lease_epoch, taken.inputs, taken.model_failures, taken.at
FROM locked LEFT JOIN taken ON taken.id = locked.id
""")
# One statement, because nothing waits. A head written since it began is locked and read as it is now.
_TRY = text("""
WITH run AS MATERIALIZED (
    SELECT a.id FROM agent_run AS a WHERE a.id = ANY (ARRAY(SELECT unnest(CAST(:runs AS uuid[]))))
    ORDER BY a.id FOR NO KEY UPDATE OF a SKIP LOCKED
), head AS MATERIALIZED (
    SELECT h.subject, h.seq, h.hash FROM audit_head AS h
    WHERE h.subject = ANY (ARRAY(SELECT unnest(CAST(:subjects AS text[])))) AND (SELECT count(*) FROM run) >= 0
    ORDER BY h.subject FOR NO KEY UPDATE OF h SKIP LOCKED
)
SELECT CAST(NULL AS uuid) AS id, subject, seq, hash FROM head UNION ALL SELECT id, NULL, NULL, NULL FROM run
""")
_CALLS = text("""
SELECT run_id, bool_or(ask_no > 0) AS asked, bool_or(state <> 'answered') AS open,
       EXISTS (SELECT FROM webhook WHERE removed_at IS NULL) AS webhooks
FROM tool_call WHERE run_id = ANY (ARRAY(SELECT unnest(CAST(:runs AS uuid[])))) GROUP BY run_id
""")
# Rows come in no defined order: a locked one is left to the next heartbeat instead of waiting.
_BEAT = text("""
UPDATE agent_run SET lease_until = clock_timestamp() + make_interval(secs => :seconds)
WHERE id IN (SELECT r.id FROM agent_run AS r
             JOIN unnest(CAST(:ids AS uuid[]), CAST(:epochs AS bigint[])) AS held (id, epoch) ON held.id = r.id
             WHERE r.lease_epoch = held.epoch AND r.lease_until IS NOT NULL
             FOR NO KEY UPDATE OF r SKIP LOCKED)
""")
_RECORD_TURN = text("""
UPDATE agent_run AS a SET turn = e.turn, steps = a.steps + 1, tokens = a.tokens + e.tokens, heard = e.heard,
       awaiting_calls = a.awaiting_calls + e.proposed, branches = a.branches OR e.branches,
       model_failures = 0, look_at = NULL,
       lease_until = NULL, lease_worker = NULL, updated_at = clock_timestamp(),
       status = CASE WHEN e.final THEN 'completed'::run_status ELSE a.status END,
       answer = CASE WHEN e.final THEN e.answer ELSE a.answer END
FROM (SELECT * FROM json_to_recordset(:rows) AS t (
          id uuid, turn int, tokens bigint, heard int, proposed int, branches boolean, final boolean, answer text)
      LIMIT (SELECT CAST(:many AS int))) AS e
WHERE a.id = e.id
""")
_REST = text("""
UPDATE agent_run SET heard = greatest(heard, :heard), model_failures = 0, look_at = NULL,
       lease_until = NULL, lease_worker = NULL
WHERE id = :run
""")
_DROP = text("""
UPDATE agent_run SET lease_until = NULL, lease_worker = NULL WHERE id = :run AND lease_worker = :worker
""")
_POSTPONE = text("""
UPDATE agent_run SET look_at = :until, model_failures = model_failures + 1,
                     lease_until = NULL, lease_worker = NULL
WHERE id = :run RETURNING model_failures
""")

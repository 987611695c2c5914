"""The lease under which one worker makes one turn of a run; its epoch fences every earlier holder."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction
from agent.domain.run import RunLease, Turn


@dataclass(frozen=True, slots=True)
class TakenLease:
    """A run's lease as it was taken, with what there is to hear."""

    lease_epoch: int
    inputs: int
    model_failures: int
    at: datetime


async def take(connection: Connection, run_id: UUID, worker: str, seconds: float) -> TakenLease | None:
    """Lease the run if it is runnable and free; the epoch counts up, which fences whoever held it before."""
    parameters = {"id": run_id, "worker": worker, "seconds": seconds}
    row = (await connection.execute(_TAKE_LEASE, parameters)).one_or_none()
    return TakenLease(*row) if row else None


def renew(tx: Transaction, leases: Collection[RunLease], seconds: float) -> None:
    """These turns are still being made."""
    tx.add(
        _BEAT,
        ids=[lease.run_id for lease in leases],
        epochs=[lease.epoch for lease in leases],
        seconds=seconds,
    )


def record_turn(
    tx: Transaction, run_id: UUID, number: int, turn: Turn, proposed: int, *, final: bool
) -> None:
    """Count the turn, give the lease back; ``final``: the agent has answered and waits for nothing."""
    tx.add(
        _RECORD_TURN,
        run=run_id,
        turn=number,
        tokens=turn.tokens,
        heard=turn.heard,
        proposed=proposed,
        final=final,
        answer=turn.text,
    )


def release(tx: Transaction, run_id: UUID, heard: int) -> None:
    """Give the lease back without a turn."""
    tx.add(_REST, run=run_id, heard=heard)


async def postpone(connection: Connection, run_id: UUID, until: datetime) -> bool:
    """Give the lease back and look again later. True for the first failure in a row."""
    failures: int = (await connection.execute(_POSTPONE, {"run": run_id, "until": until})).scalar_one()
    return failures == 1


_TAKE_LEASE = text("""
UPDATE agent_run SET lease_epoch = lease_epoch + 1, lease_worker = :worker,
                     lease_until = clock_timestamp() + make_interval(secs => :seconds)
WHERE id = :id AND inputs > heard AND status IN ('working', 'pending_approval')
  AND (lease_until IS NULL OR lease_until <= clock_timestamp())
  AND (look_at IS NULL OR look_at <= clock_timestamp())
  AND NOT EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', agent_run.agent) OR scope = ANY (agent_run.ancestor_agents))
RETURNING lease_epoch, inputs, model_failures, clock_timestamp() AS at
""")
# Many rows at once, in no order of ours: one that somebody holds now is left to the next beat, not waited for.
_BEAT = text("""
UPDATE agent_run SET lease_until = clock_timestamp() + make_interval(secs => :seconds)
WHERE id IN (SELECT r.id FROM agent_run AS r
             JOIN unnest(CAST(:ids AS uuid[]), CAST(:epochs AS bigint[])) AS held (id, epoch) ON held.id = r.id
             WHERE r.lease_epoch = held.epoch AND r.lease_until IS NOT NULL
             FOR NO KEY UPDATE OF r SKIP LOCKED)
""")
_RECORD_TURN = text("""
UPDATE agent_run SET turn = :turn, steps = steps + 1, tokens = tokens + :tokens, heard = :heard,
       awaiting_calls = awaiting_calls + :proposed, model_failures = 0, look_at = NULL,
       lease_until = NULL, lease_worker = NULL, updated_at = clock_timestamp(),
       status = CASE WHEN :final THEN 'completed'::run_status ELSE status END,
       answer = CASE WHEN :final THEN :answer ELSE answer END
WHERE id = :run
""")
_REST = text("""
UPDATE agent_run SET heard = greatest(heard, :heard), model_failures = 0, look_at = NULL,
       lease_until = NULL, lease_worker = NULL
WHERE id = :run
""")
_POSTPONE = text("""
UPDATE agent_run SET look_at = :until, model_failures = model_failures + 1,
                     lease_until = NULL, lease_worker = NULL
WHERE id = :run RETURNING model_failures
""")

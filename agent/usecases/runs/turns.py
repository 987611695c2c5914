"""One turn of a run under its lease: take it, journal what came of it, give it back.

A run is a row. What its model should hear is counted (``inputs``), and what the last turn had read (``heard``);
a run with more of the first is runnable. Leases fence: every write of a turn is conditional on its epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import structlog

from agent import tracing
from agent.database.pools import Database
from agent.database.transaction import Connection, Transaction
from agent.database.wakeups import Wakeup
from agent.domain.audit import AuditKind, run_subject
from agent.domain.errors import LeaseLost
from agent.domain.run import AnswerKind, CallAnswer, CallView, Message, RunLease, RunStatus, RunView, Turn
from agent.store import ancestors, audit, calls, clock, outbound, outbox, run_leases, runs, views
from agent.usecases import call_answers
from agent.usecases.executions import LEASE_SECONDS
from agent.usecases.runs import endings
from agent.usecases.runs.cancellation import end_orphans
from agent.usecases.runs.endings import RunEnding

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LeasedRun:
    """A run to make one model turn of, as its rows stood when the lease was taken."""

    lease: RunLease
    run: RunView
    messages: tuple[Message, ...]
    calls: tuple[CallView, ...]
    heard: int
    failures: int
    at: datetime

    @property
    def tools_on(self) -> bool:
        """While a blocking call waits, the model only talks."""
        return self.run.awaiting_calls == 0


async def lease(db: Database, run_id: UUID, worker: str) -> LeasedRun | None:
    """Take the run for one model turn. ``None``: nothing to hear, not yet, or somebody else has it."""
    async with db.transaction() as tx:
        taken = await run_leases.take(tx, run_id, worker, LEASE_SECONDS)
        if taken is None:
            return None
        run = await views.run_view(tx, run_id)
        messages = await views.messages(tx, run_id)
        proposed = await views.calls(tx, run_id)
    if run is None:
        return None
    return LeasedRun(
        lease=RunLease(run_id, taken.lease_epoch, worker),
        run=run,
        messages=messages,
        calls=proposed,
        heard=taken.inputs,
        failures=taken.model_failures,
        at=taken.at,
    )


async def record_turn(db: Database, lease: RunLease, turn: Turn) -> None:
    """Journal the model's turn: its words, its calls (not judged yet), what it cost. Gives the lease back.

    Raises ``LeaseLost`` when another worker has taken the run over, or this turn is in the journal already (a
    COMMIT whose answer was lost); nothing is written then.
    """
    async with db.transaction() as tx:
        run = await _held(tx, lease)
        side_turn = run.awaiting_calls > 0
        proposed = () if side_turn else turn.calls
        number = run.turn + 1
        runs.add_message(tx, run, "assistant", turn.text, turn=number)
        calls.propose(tx, run, number, proposed)
        final = not proposed and not side_turn and run.inputs == turn.heard
        run_leases.record_turn(tx, run.id, number, turn, len(proposed), final=final)
        if run.inputs > turn.heard:
            tx.wake(Wakeup.run(run.id, run.agent))
        if run.destination and turn.text and not proposed:
            outbox.enqueue(tx, [outbox.run_line(run.destination, run.id, "answer", text=turn.text)])
        if run.destination:
            outbox.enqueue(tx, [outbox.run_root(run.destination, run.id)])
            if run.ancestor_ids and await ancestors.has_asked(tx, run.id):
                outbox.enqueue(tx, ancestors.ancestor_roots(run.destination, run.ancestor_ids))
        if final:
            outbound.enqueue_finished(tx, run.id)
            tx.after_commit(partial(tracing.note_end, "run", run.id))
            tx.after_commit(
                partial(
                    log.info,
                    "run ended",
                    action="run.ended",
                    run_id=str(run.id),
                    status=RunStatus.COMPLETED.value,
                )
            )
            if not await ancestors.has_open_calls(tx, run.id):
                await call_answers.answer_parent(tx, run, CallAnswer(AnswerKind.RESULT, turn.text or ""))
            detail = {"status": RunStatus.COMPLETED.value, "turn": number}
            await audit.record(tx, run_subject(run.id), AuditKind.RUN_ENDED, f"worker:{lease.worker}", detail)


async def record_model_failure(db: Database, lease: RunLease, error: str, retry_in: float | None) -> None:
    """The model could not be asked. With ``retry_in`` seconds it will be again; else the run ends failed.

    Raises ``LeaseLost``.
    """
    async with db.transaction() as tx:
        run = await _held(tx, lease)
        if retry_in is None:
            await _end(tx, run, RunStatus.FAILED, error)
        else:
            now = await clock.now(tx)
            again = now + timedelta(seconds=retry_in)
            first = await run_leases.postpone(tx, run.id, again)
            if run.destination and first:
                outbox.enqueue(tx, [outbox.run_line(run.destination, run.id, "retrying", text=error)])
    if retry_in is None:
        await end_orphans(db)


async def release(db: Database, lease: RunLease, heard: int) -> None:
    """Give the lease back: there is nothing to do before one of the run's calls is answered. Raises ``LeaseLost``."""
    async with db.transaction() as tx:
        run = await _held(tx, lease)
        run_leases.release(tx, run.id, heard)
        if run.inputs > heard:
            tx.wake(Wakeup.run(run.id, run.agent))


async def end(db: Database, lease: RunLease, status: RunStatus, cause: str) -> None:
    """The agent itself ends the run, denied or failed. Raises ``LeaseLost``."""
    async with db.transaction() as tx:
        run = await _held(tx, lease)
        await _end(tx, run, status, cause)
    await end_orphans(db)


async def set_status(db: Database, lease: RunLease, progress: str) -> None:
    """How far the agent says that it is, for the run's first message. Raises ``LeaseLost``."""
    async with db.transaction() as tx:
        run = await _held(tx, lease)
        runs.set_status(tx, run.id, progress)
        if run.destination:
            outbox.enqueue(tx, [outbox.run_root(run.destination, run.id)])


async def _end(tx: Transaction, run: runs.LockedRun, status: RunStatus, cause: str) -> None:
    await endings.end(tx, await endings.lock(tx, [run]), [run], RunEnding(status, cause))


async def _held(connection: Connection, lease: RunLease) -> runs.LockedRun:
    run = await runs.lock(connection, lease.run_id)
    if run is None or run.lease_epoch != lease.epoch or not run.leased:
        raise LeaseLost(f"run {lease.run_id} was taken over, or its turn is written")
    return run

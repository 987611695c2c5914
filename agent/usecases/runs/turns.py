"""One turn of a run under its lease: take it, journal what came of it, give it back.

A run is a row. What its model should hear is counted (``inputs``), and what the last turn had read (``heard``);
a run with more of the first is runnable. Leases fence: every write of a turn is conditional on its epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import structlog

from agent import tracing
from agent.database.locks import SKIPPED, Skipped
from agent.database.pools import Database
from agent.database.transaction import Connection, Transaction
from agent.database.wakeups import Wakeup
from agent.domain.audit import AuditKind, run_subject
from agent.domain.errors import LeaseLost
from agent.domain.run import AnswerKind, CallAnswer, CallView, Message, RunLease, RunStatus, RunView, Turn
from agent.store import ancestors, audit, calls, clock, outbound, outbox, run_leases, runs
from agent.store.audit import AuditEntry
from agent.store.outbox import OutboxMessage
from agent.store.run_leases import HeldRun
from agent.store.runs import LockedRun
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
    (leased,) = await lease_together(db, worker, [run_id], wait=True)
    return leased if isinstance(leased, LeasedRun) else None


async def lease_together(
    db: Database, worker: str, run_ids: Sequence[UUID], *, wait: bool
) -> list[LeasedRun | Skipped | None]:
    """``lease`` for any number of runs in one transaction; without ``wait`` it skips what others hold."""
    async with db.transaction() as tx:
        taken, known = await run_leases.take(tx, run_ids, worker, LEASE_SECONDS, wait=wait)
    return [
        _leased(taken[each], worker) if each in taken else None if each in known or wait else SKIPPED
        for each in run_ids
    ]


def _leased(taken: run_leases.TakenLease, worker: str) -> LeasedRun:
    return LeasedRun(
        lease=RunLease(taken.transcript.run.id, taken.lease_epoch, worker),
        run=taken.transcript.run,
        messages=taken.transcript.messages,
        calls=taken.transcript.calls,
        heard=taken.inputs,
        failures=taken.model_failures,
        at=taken.at,
    )


@dataclass(frozen=True, slots=True)
class MadeTurn:
    """A turn and the lease under which it was made."""

    lease: RunLease
    turn: Turn


async def record_turn(db: Database, lease: RunLease, turn: Turn) -> None:
    """Journal the model's turn: its words, its calls (not judged yet), what it cost. Gives the lease back.

    Raises ``LeaseLost`` when another worker has taken the run over, or this turn is in the journal already (a
    COMMIT whose answer was lost); nothing is written then.
    """
    (lost,) = await record_turns(db, [MadeTurn(lease, turn)], wait=True)
    if isinstance(lost, LeaseLost):
        raise lost


async def record_turns(
    db: Database, made: Sequence[MadeTurn], *, wait: bool
) -> list[LeaseLost | Skipped | None]:
    """``record_turn`` for different runs in one transaction; without ``wait`` it skips what others hold.

    A run that works for another one is then skipped, too: its end locks that one, before any chain's head.
    """
    ids = [each.lease.run_id for each in made]
    ends = [run_subject(each.lease.run_id) for each in made if not each.turn.calls]
    async with db.transaction() as tx:
        held = await (run_leases.lock(tx, ids) if wait else run_leases.try_lock(tx, ids, ends))
        return [await _record(tx, held.get(each.lease.run_id), each, wait=wait) for each in made]


async def _record(
    tx: Transaction, held: HeldRun | None, made: MadeTurn, *, wait: bool
) -> LeaseLost | Skipped | None:
    lease, turn = made.lease, made.turn
    if held is None and not wait:
        return SKIPPED
    if held is None or held.run.lease_epoch != lease.epoch or not held.run.leased:
        return _lost(lease)
    run = held.run
    side_turn = run.awaiting_calls > 0
    proposed = () if side_turn else turn.calls
    number = run.turn + 1
    final = not proposed and not side_turn and run.inputs == turn.heard
    if not wait and (run.parent_run_id is not None or (final and held.head is None)):
        return SKIPPED
    tx.next_member()
    runs.add_message(tx, run, "assistant", turn.text, turn=number)
    calls.propose(tx, run, number, proposed)
    run_leases.record_turn(tx, run.id, number, turn, len(proposed), final=final)
    if run.inputs > turn.heard:
        tx.wake(Wakeup.run(run.id, run.agent))
    outbox.enqueue(tx, _messages(held, turn, answers=not proposed))
    if final:
        _note_end(tx, run)
        if not held.open:
            await call_answers.answer_parent(tx, run, CallAnswer(AnswerKind.RESULT, turn.text or ""))
        head = held.head or await audit.lock_head(tx, run_subject(run.id))
        detail = {"status": RunStatus.COMPLETED.value, "turn": number}
        audit.append(tx, head, AuditEntry(AuditKind.RUN_ENDED, f"worker:{lease.worker}", detail))
    return None


def _messages(held: HeldRun, turn: Turn, *, answers: bool) -> list[OutboxMessage]:
    run = held.run
    if run.destination is None:
        return []
    words = (
        [outbox.run_line(run.destination, run.id, "answer", text=turn.text)] if answers and turn.text else []
    )
    above = ancestors.ancestor_roots(run.destination, run.ancestor_ids) if held.asked else []
    return [*words, outbox.run_root(run.destination, run.id), *above]


def _note_end(tx: Transaction, run: LockedRun) -> None:
    outbound.enqueue_finished(tx, run.id)
    tx.after_commit(partial(tracing.note_end, "run", run.id))
    facts = {"action": "run.ended", "run_id": str(run.id), "status": RunStatus.COMPLETED.value}
    tx.after_commit(partial(log.info, "run ended", **facts))


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


async def drop_lease(db: Database, run_id: UUID, worker: str) -> None:
    """Give back the lease that a worker may have taken, and under which it does nothing.

    This waits for a transaction that is still about to commit, which holds the run's row.
    """
    async with db.transaction() as tx:
        run_leases.drop(tx, run_id, worker)


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
        raise _lost(lease)
    return run


def _lost(lease: RunLease) -> LeaseLost:
    return LeaseLost(f"run {lease.run_id} was taken over, or its turn is written")

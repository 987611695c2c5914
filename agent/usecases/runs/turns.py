"""One turn of a run under a lease.

A run is runnable when it has more inputs (``inputs``) than its last turn read (``heard``). Every write of a turn
checks the lease's epoch (fencing).
"""

from __future__ import annotations

from collections.abc import Sequence
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
from agent.fault_points import point
from agent.store import ancestors, audit, calls, clock, outbound, outbox, run_leases, runs
from agent.store.audit import AuditEntry
from agent.store.outbox import OutboxMessage
from agent.store.run_leases import HeldRun, TakenLease
from agent.store.runs import LockedRun
from agent.usecases.calls import LEASE_SECONDS, call_answers
from agent.usecases.runs import endings
from agent.usecases.runs.cancellation import end_orphans
from agent.usecases.runs.endings import RunEnding
from agent.usecases.waves import SKIPPED, JointUseCase, Settled, Skipped

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LeasedRun:
    """Rows as read when the lease was taken."""

    lease: RunLease
    run: RunView
    messages: tuple[Message, ...]
    calls: tuple[CallView, ...]
    heard: int
    failures: int
    at: datetime

    @property
    def tools_on(self) -> bool:
        """Whether tools are offered: while a blocking call waits, the model only talks."""
        return self.run.awaiting_calls == 0


class LeaseRuns(JointUseCase[UUID, TakenLease | None, LeasedRun | None]):
    """``None``: no new input, not due, or leased by another worker."""

    def __init__(self, db: Database, worker: str) -> None:
        super().__init__(db)
        self._worker = worker

    async def lock(
        self, tx: Transaction, members: Sequence[UUID], *, wait: bool
    ) -> list[TakenLease | Skipped | None]:
        taken = await run_leases.take(tx, members, self._worker, LEASE_SECONDS, wait=wait)
        return [taken.get(each, SKIPPED) for each in members]

    def missing(self, member: UUID) -> None:  # noqa: ARG002
        return None

    async def act(
        self,
        tx: Transaction,  # noqa: ARG002
        member: UUID,  # noqa: ARG002
        found: TakenLease | None,
        *,
        wait: bool,  # noqa: ARG002
    ) -> LeasedRun | None:
        return _leased(found, self._worker) if found else None


def _leased(taken: TakenLease, worker: str) -> LeasedRun:
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
    """A finished turn of a run, with the lease under which it may be recorded."""

    lease: RunLease
    turn: Turn


class RecordTurns(JointUseCase[MadeTurn, HeldRun, None]):
    """Journal each turn, and release its lease.

    ``LeaseLost``: another worker has the run, or the turn is journalled already; nothing is written. Members are
    turns of different runs. Without ``wait`` a child run's turn is skipped: its end locks the parent before any
    chain's head.
    """

    async def lock(
        self, tx: Transaction, members: Sequence[MadeTurn], *, wait: bool
    ) -> list[HeldRun | Skipped]:
        tx.after_commit(partial(point, "after_turn"))
        ids = [each.lease.run_id for each in members]
        ends = [run_subject(each.lease.run_id) for each in members if not each.turn.calls]
        held = await (run_leases.lock(tx, ids) if wait else run_leases.try_lock(tx, ids, ends))
        return [held.get(each, SKIPPED) for each in ids]

    def missing(self, member: MadeTurn) -> LeaseLost:
        return _lost(member.lease)

    async def act(self, tx: Transaction, member: MadeTurn, found: HeldRun, *, wait: bool) -> Settled[None]:
        lease, turn = member.lease, member.turn
        if found.run.lease_epoch != lease.epoch or not found.run.leased:
            return _lost(lease)
        run = found.run
        is_side_turn = run.awaiting_calls > 0 and not turn.branches
        proposed = () if is_side_turn else turn.calls
        number = run.turn + 1
        final = not proposed and not is_side_turn and run.inputs == turn.heard
        if not wait and (run.parent_run_id is not None or (final and found.head is None)):
            return SKIPPED
        runs.add_message(tx, run, "assistant", turn.text, turn=number)
        calls.propose(tx, run, number, proposed)
        run_leases.record_turn(tx, run.id, number, turn, len(proposed), final=final)
        if run.inputs > turn.heard:
            tx.wake(Wakeup.run(run.id, run.agent))
        ends = final and not found.open and run.parent_run_id is None
        outbox.enqueue(tx, _messages(found, turn, answers=not proposed, ends=ends))
        if final:
            if found.webhooks:
                outbound.enqueue_finished(tx, run.id)
            _note_end(tx, run)
            if not found.open:
                await call_answers.answer_parent(tx, run, CallAnswer(AnswerKind.RESULT, turn.text or ""))
            head = found.head or await audit.lock_head(tx, run_subject(run.id))
            detail = {"status": RunStatus.COMPLETED.value, "turn": number}
            audit.append(tx, head, AuditEntry(AuditKind.RUN_ENDED, f"worker:{lease.worker}", detail))
        return None


def _messages(held: HeldRun, turn: Turn, *, answers: bool, ends: bool) -> list[OutboxMessage]:
    """``ends``: nothing is to come, so whoever asked is told, also if there is no text."""
    run = held.run
    if run.destination is None:
        return []
    words = []
    if answers and (turn.text or ends):
        said = {"text": turn.text or "", "run": str(run.id), "turn": run.turn + 1}
        answer = outbox.run_line(run.destination, run.id, "answer", **said)
        words.append(outbox.telling(answer) if ends else answer)
    above = ancestors.ancestor_roots(run.destination, run.ancestor_ids) if held.asked else []
    return [*words, outbox.run_root(run.destination, run.id), *above]


def _note_end(tx: Transaction, run: LockedRun) -> None:
    tx.after_commit(partial(tracing.note_end, "run", run.id))
    facts = {"action": "run.ended", "run_id": str(run.id), "status": RunStatus.COMPLETED.value}
    tx.after_commit(partial(log.info, "run ended", **facts))


async def record_model_failure(db: Database, lease: RunLease, error: str, retry_in: float | None) -> None:
    """``retry_in``: seconds; ``None`` fails the run. Raises ``LeaseLost``."""
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
    """Release the lease until a call is answered. Raises ``LeaseLost``."""
    async with db.transaction() as tx:
        run = await _held(tx, lease)
        run_leases.release(tx, run.id, heard)
        if run.inputs > heard:
            tx.wake(Wakeup.run(run.id, run.agent))


async def drop_lease(db: Database, run_id: UUID, worker: str) -> None:
    """Waits for a transaction about to commit that holds the run's row."""
    async with db.transaction() as tx:
        run_leases.drop(tx, run_id, worker)


async def end(db: Database, lease: RunLease, status: RunStatus, cause: str) -> None:
    """Raises ``LeaseLost``."""
    async with db.transaction() as tx:
        run = await _held(tx, lease)
        await _end(tx, run, status, cause)
    await end_orphans(db)


async def show_at_work(db: Database, run_id: UUID) -> None:
    """Enqueue the redrawing of a run's message in Slack, so that it shows a call that is still running."""
    async with db.transaction() as tx:
        there = await runs.destination(tx, run_id)
        if there is not None:
            outbox.enqueue(tx, [outbox.run_root(there, run_id)])


async def set_status(
    db: Database, lease: RunLease, progress: str | None = None, label: str | None = None
) -> None:
    """``None``: unchanged. Raises ``LeaseLost``."""
    async with db.transaction() as tx:
        run = await _held(tx, lease)
        runs.set_status(tx, run.id, progress, label)
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

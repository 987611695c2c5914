"""The use cases on a run: start, hear, lease, journal a turn, answer a call, sweep.

A run is a row. What its model should hear is counted (``inputs``), and what the last turn had read (``heard``);
a run with more of the first is runnable. Leases fence: every write of a turn is conditional on its epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from agent import jobs, tracing
from agent.cancelling import cancel, cancel_by_operator, cancel_by_program, end_orphans
from agent.domain.audit import AuditKind, run_subject
from agent.domain.errors import LeaseLost, NotFound, Refusal, Refused
from agent.domain.run import (
    Answer,
    AnswerKind,
    CallView,
    Message,
    NewRun,
    RunLease,
    RunStatus,
    RunView,
    Turn,
)
from agent.executions import LEASE_SECONDS
from agent.store import chain, locks, notices, outbox, reads
from agent.store.batch import Batch
from agent.store.chain import Entry
from agent.store.database import Database
from agent.store.ids import new_id
from agent.store.writes import calls, families, run_beginnings, run_endings, runs, sweeps
from signoff.errors import CollaborationError
from signoff.values import Action, Person

log = structlog.get_logger(__name__)

__all__ = [
    "Leased",
    "NewRun",
    "Started",
    "answer_call",
    "cancel",
    "cancel_by_operator",
    "cancel_by_program",
    "end",
    "end_orphans",
    "hear",
    "lease",
    "pass_call",
    "publish",
    "record_model_failure",
    "record_turn",
    "refuse_call",
    "rest",
    "start",
    "sweep",
]


@dataclass(frozen=True, slots=True)
class Started:
    """The run that stands for this start; ``created`` is false when it was there already."""

    run_id: UUID
    created: bool


@dataclass(frozen=True, slots=True)
class Leased:
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


async def start(db: Database, new: NewRun) -> Started:
    """Run, first transcript row, thread and hint together. Starting again with the same key finds the run."""
    run_id = new_id()
    async with db.transaction() as connection:
        batch = Batch()
        if not await run_beginnings.begin_run(connection, batch, run_id, new):
            return Started(await runs.started_with(connection, new.start_key), created=False)
        await batch.send(connection)
    return Started(run_id, created=True)


async def hear(
    db: Database,
    run_id: UUID,
    text: str,
    author: Person | None,
    source_key: str | None,
    *,
    principal: str | None = None,
    administrator: bool = False,
) -> bool:
    """A person says something in the run's thread, or through a program, which is then ``principal``.

    A run that failed or was denied is taken up again by its requester, by an ``administrator`` of the workspace and
    by the program that started it. False: heard before, or the run was cancelled. Raises ``NotFound``, and
    ``Refused`` (recorded) for what others say to a run that is over.
    """
    async with db.transaction() as connection:
        run = await runs.lock(connection, run_id)
        if run is None:
            raise NotFound(f"no run {run_id}")
        known = source_key is not None and await runs.has_heard(connection, source_key)
        if known or run.status is RunStatus.CANCELLED:
            return False
        batch = Batch()
        who = principal or chain.actor(author)
        refused = run.over and not (administrator or _is_theirs(run, author, principal))
        if refused:
            detail: dict[str, object] = {"refusal": Refusal.NOT_YOURS_TO_TAKE_UP.value, "path": "message"}
            await _record(connection, batch, run.id, AuditKind.RESUME_REFUSED, who, detail)
        else:
            runs.add_message(batch, run, "user", text, author=author, source_key=source_key)
            runs.take_up(batch, run.id)
            await _record(connection, batch, run.id, AuditKind.RUN_MESSAGE, who, {"seq": run.last_seq + 1})
        await batch.send(connection)
    if refused:
        raise Refused(Refusal.NOT_YOURS_TO_TAKE_UP)
    return True


def _is_theirs(run: runs.LockedRun, author: Person | None, principal: str | None) -> bool:
    """Whether this person, or this program, started the run."""
    if principal is not None and principal == run.principal:
        return True
    return author is not None and author == run.requester


async def lease(db: Database, run_id: UUID, worker: str) -> Leased | None:
    """Take the run for one model turn. ``None``: nothing to hear, not yet, or somebody else has it."""
    async with db.transaction() as connection:
        taken = await runs.take(connection, run_id, worker, LEASE_SECONDS)
        if taken is None:
            return None
        run = await reads.run_view(connection, run_id)
        messages = await reads.messages(connection, run_id)
        proposed = await reads.calls(connection, run_id)
    if run is None:
        return None
    return Leased(
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
    async with db.transaction() as connection:
        run = await _held(connection, lease)
        batch = Batch()
        side_turn = run.awaiting_calls > 0
        proposed = () if side_turn else turn.calls
        number = run.turn + 1
        runs.add_message(batch, run, "assistant", turn.text, turn=number)
        calls.propose(batch, run.id, number, proposed)
        final = not proposed and not side_turn and run.inputs == turn.heard
        runs.record_turn(batch, run.id, number, turn, len(proposed), final=final)
        if run.inputs > turn.heard:
            batch.hint(jobs.advance_run(run.id))
        if run.outlet and turn.text and not proposed:
            outbox.tell(batch, [outbox.run_line(run.outlet, run.id, "answer", text=turn.text)])
        if run.outlet:
            outbox.tell(batch, [outbox.run_root(run.outlet, run.id)])
            told = await families.roots_above(connection, run.outlet, run.parent_run_id, asked_by=run.id)
            outbox.tell(batch, told)
        if final:
            notices.finished(batch, run.id)
            tracing.ended("run", run.id)
            log.info("run ended", action="run.ended", run_id=str(run.id), status=RunStatus.COMPLETED.value)
            if not await families.has_open_calls(connection, run.id):
                await families.answer_above(
                    connection, batch, run, Answer(AnswerKind.RESULT, turn.text or "")
                )
            detail = {"status": RunStatus.COMPLETED.value, "turn": number}
            await _record(connection, batch, run.id, AuditKind.RUN_ENDED, f"worker:{lease.worker}", detail)
        await batch.send(connection)


async def record_model_failure(db: Database, lease: RunLease, error: str, retry_in: float | None) -> None:
    """The model could not be asked. With ``retry_in`` seconds it will be again; else the run ends failed.

    Raises ``LeaseLost``.
    """
    async with db.transaction() as connection:
        run = await _held(connection, lease)
        batch = Batch()
        if retry_in is None:
            await run_endings.end_run(connection, batch, run, RunStatus.FAILED, error)
        else:
            now = await locks.clock(connection)
            again = now + timedelta(seconds=retry_in)
            first = await runs.postpone(connection, run.id, again)
            batch.hint(jobs.advance_run(run.id, not_before=again))
            if run.outlet and first:
                outbox.tell(batch, [outbox.run_line(run.outlet, run.id, "retrying", text=error)])
        await batch.send(connection)
    if retry_in is None:
        await end_orphans(db)


async def rest(db: Database, lease: RunLease, heard: int) -> None:
    """Give the lease back: there is nothing to do before one of the run's calls is answered. Raises ``LeaseLost``."""
    async with db.transaction() as connection:
        run = await _held(connection, lease)
        batch = Batch()
        runs.rest(batch, run.id, heard)
        if run.inputs > heard:
            batch.hint(jobs.advance_run(run.id))
        await batch.send(connection)


async def end(db: Database, lease: RunLease, status: RunStatus, cause: str) -> None:
    """The agent itself ends the run, denied or failed. Raises ``LeaseLost``."""
    async with db.transaction() as connection:
        run = await _held(connection, lease)
        batch = Batch()
        await run_endings.end_run(connection, batch, run, status, cause)
        await batch.send(connection)
    await end_orphans(db)


async def publish(db: Database, lease: RunLease, progress: str) -> None:
    """How far the agent says that it is, for the run's first message. Raises ``LeaseLost``."""
    async with db.transaction() as connection:
        run = await _held(connection, lease)
        batch = Batch()
        runs.publish(batch, run.id, progress)
        if run.outlet:
            outbox.tell(batch, [outbox.run_root(run.outlet, run.id)])
        await batch.send(connection)


async def pass_call(db: Database, call_id: UUID, action: Action) -> bool:
    """Policy lets the call run. False: it had been judged already, or its run has ended."""
    async with db.transaction() as connection:
        call = await locks.new_call(connection, call_id)
        if call is None or call.state != "new" or call.in_vain:
            return False
        batch = Batch()
        calls.pass_on(batch, call_id, action)
        await batch.send(connection)
    return True


async def refuse_call(db: Database, call_id: UUID, answer: Answer) -> bool:
    """The call will not run and nobody is asked. False: it had been judged already."""
    async with db.transaction() as connection:
        call = await locks.call(connection, call_id)
        if call is None or call.state != "new":
            return False
        batch = Batch()
        calls.refuse(batch, call_id, answer)
        await batch.send(connection)
    return True


async def answer_call(db: Database, call_id: UUID) -> CollaborationError | None:
    """Let the run hear of a refused call: the model is told, or the run (and its parents) ends.

    Returns the error that ended the run, to be logged and raised by the runtime; ``None`` otherwise.
    """
    async with db.transaction() as connection:
        run_id = await locks.run_of_call(connection, call_id)
        run = await runs.lock(connection, run_id) if run_id else None
        call = await locks.call(connection, call_id)
        if run is None or call is None:
            raise NotFound(f"no tool call {call_id}")
        if call.state != "refused":
            return None
        given = Answer(AnswerKind(call.answer_kind), call.answer or "")
        cause = None if run.over else runs.stop_cause(given.kind, call.on_reject)
        ended = runs.EndedCall(
            call.id,
            call.tool,
            call.raw_arguments,
            call.blocking and not cause,
            call.request_id,
            call.on_reject,
            call.repeats,
        )
        batch = Batch()
        if cause is None:
            runs.answer(batch, run, ended, given)
        else:
            runs.close_call(batch, run.id, call.id, given, blocking=call.blocking)
            facts = {"request": str(call.request_id), "reason": given.text, "user": call.decided_by}
            await run_endings.end_run(connection, batch, run, RunStatus.DENIED, cause, upwards=True, **facts)
        await batch.send(connection)
    if cause is None:
        return None
    await end_orphans(db)
    return CollaborationError(
        cause, request_id=str(call.request_id), reason=given.text or None, reviewer=call.decided_by
    )


async def sweep(db: Database) -> int:
    """Hint everything that is runnable, that nobody holds, and that no hint is queued for. Returns how many."""
    async with db.transaction() as connection:
        hints = await sweeps.runnable(connection)
        batch = Batch()
        batch.hint(*hints)
        await batch.send(connection)
    return len(hints)


async def _held(connection: AsyncConnection, lease: RunLease) -> runs.LockedRun:
    run = await runs.lock(connection, lease.run_id)
    if run is None or run.lease_epoch != lease.epoch or not run.leased:
        raise LeaseLost(f"run {lease.run_id} was taken over, or its turn is written")
    return run


async def _record(
    connection: AsyncConnection,
    batch: Batch,
    run_id: UUID,
    kind: AuditKind,
    actor: str,
    detail: dict[str, object],
) -> None:
    subject = run_subject(run_id)
    head = (await chain.lock_heads(connection, [subject]))[subject]
    chain.append(batch, head, Entry(kind, actor, detail))

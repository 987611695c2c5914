"""How attempts end. The effect is never silently repeated; an unknown outcome is *in doubt*."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol
from uuid import UUID

from agent import tracing
from agent.database.transaction import Transaction
from agent.domain.audit import AuditKind, call_subject
from agent.domain.errors import NotFound
from agent.domain.request import ExecutionStatus
from agent.domain.short_ids import short_id
from agent.fault_points import point
from agent.store import audit, calls, outbox, report_locks
from agent.store.audit import AuditEntry, ChainHead
from agent.store.executions import CallAttempt
from agent.store.report_locks import ReportedAttempt
from agent.store.runs import LockedRun
from agent.usecases.calls import attempts, call_answers
from agent.usecases.calls.attempts import Outcome
from agent.usecases.waves import SKIPPED, JointUseCase, Settled, Skipped


class ClaimedAttempt(Protocol):
    """A claimed attempt as a report names it, with the worker or program that holds it."""

    @property
    def execution_id(self) -> UUID: ...
    @property
    def run_id(self) -> UUID | None: ...
    @property
    def call_id(self) -> UUID: ...
    @property
    def request_id(self) -> UUID | None: ...
    @property
    def worker(self) -> str: ...


@dataclass(frozen=True, slots=True)
class AttemptReport:
    """The outcome that a worker or program reports for the attempt that it claimed."""

    claim: ClaimedAttempt
    outcome: Outcome

    @property
    def subject(self) -> str:
        return call_subject(self.claim.run_id, self.claim.request_id)


class WriteReports(JointUseCase[AttemptReport, ReportedAttempt, bool]):
    """Write how each attempt ended, and answer the run that proposed its call.

    False: another outcome exists; this one is recorded beside it. A success ends an unsettled doubt. Repeating a
    report has no effect. Members are attempts at calls of different runs, or of programs.
    """

    async def lock(
        self, tx: Transaction, members: Sequence[AttemptReport], *, wait: bool
    ) -> list[ReportedAttempt | Skipped]:
        point("after_effect")
        tx.after_commit(partial(point, "after_result"))
        locked = await report_locks.lock(
            tx,
            [each.claim.execution_id for each in members],
            [each.claim.run_id for each in members if each.claim.run_id],
            [each.subject for each in members],
            wait=wait,
        )
        return [locked.get(each.claim.execution_id, SKIPPED) for each in members]

    def missing(self, member: AttemptReport) -> NotFound:
        return NotFound(f"no execution {member.claim.execution_id}")

    async def act(
        self,
        tx: Transaction,
        member: AttemptReport,
        found: ReportedAttempt,
        *,
        wait: bool,  # noqa: ARG002
    ) -> Settled[bool]:
        attempt, worker = found.attempt, member.claim.worker
        if attempts.is_repeated(attempt, member.outcome):
            return True
        own = attempt.worker == worker
        on_time = attempt.status is ExecutionStatus.CLAIMED and own
        if on_time and member.outcome.retry_after is not None and is_wanted(found.run, attempt):
            try_again(tx, attempt, member.outcome, found.head)
        elif on_time:
            write_outcome(tx, found.run, attempt, member.outcome, found.head, attempt.actor)
        elif own and attempts.ends_doubt(attempt, member.outcome):
            _end_doubt(tx, found, member.outcome)
            return True
        elif attempt.late_result is None:
            attempts.write_late(
                tx, attempt, member.outcome, found.head, attempt.actor if own else f"worker:{worker}"
            )
        return on_time


def write_outcome(
    tx: Transaction,
    run: LockedRun | None,
    attempt: CallAttempt,
    outcome: Outcome,
    head: ChainHead,
    actor: str,
) -> None:
    """Write how an attempt ended and answer its call, or leave the call in doubt for people to settle."""
    if attempt.outside:
        outcome = replace(outcome, seconds=outcome.seconds or attempt.seconds)
    attempts.write_outcome(tx, attempt, outcome, head, actor)
    if outcome.status is ExecutionStatus.IN_DOUBT:
        calls.mark_in_doubt(tx, attempt.call.id)
        _announce_doubt(tx, run, attempt)
    else:
        call_answers.answer(tx, run, attempt.call, outcome.answer)
    if run is None and attempt.request_id is not None:
        tx.after_commit(partial(tracing.note_end, "attempt", attempt.request_id))


def is_wanted(run: LockedRun | None, attempt: CallAttempt) -> bool:
    """Return whether anybody still wants a failed call: its run is not over, or its requester asked again."""
    return run is None or not run.over or attempt.call.repeats is not None


def try_again(tx: Transaction, attempt: CallAttempt, failed: Outcome, head: ChainHead) -> None:
    """The next attempt may begin at once, or after ``retry_after`` seconds."""
    attempts.finish(tx, attempt.id, ExecutionStatus.FAILED, failed.text, head.at)
    calls.make_ready_again(tx, attempt.call.id, attempt.agent, failed.retry_after)
    lost = failed.retry_after is None
    actor = audit.SYSTEM if lost else attempt.actor
    detail = {"execution": str(attempt.id), "lost": lost, "retried": True}
    audit.append(tx, head, AuditEntry(AuditKind.EXECUTION_FAILED, actor, detail))
    outbox.enqueue(tx, attempts.card(attempt))


def _end_doubt(tx: Transaction, found: ReportedAttempt, outcome: Outcome) -> None:
    run, attempt = found.run, found.attempt
    attempts.write_end_of_doubt(tx, attempt, outcome, found.head, attempt.actor)
    call_answers.answer(tx, run, attempt.call, outcome.answer)
    if run is None or run.destination is None:
        return
    outgoing = [outbox.run_root(run.destination, run.id)]
    if attempt.request_id is None:
        facts: dict[str, object] = {"text": "succeeded", "tool": attempt.call.tool}
        outgoing.append(outbox.run_line(run.destination, run.id, "settled", **facts))
    outbox.enqueue(tx, outgoing)


def _announce_doubt(tx: Transaction, run: LockedRun | None, attempt: CallAttempt) -> None:
    """In the run's thread, where cardless calls are settled."""
    if run is None or run.destination is None:
        return
    facts: dict[str, object] = {"tool": attempt.call.tool}
    if attempt.request_id is not None:
        facts["request"] = short_id(attempt.request_id)
    else:
        facts |= {"execution": str(attempt.id), "call": str(attempt.call.id)}
    line = outbox.telling(outbox.run_line(run.destination, run.id, "in_doubt", **facts))
    outbox.enqueue(tx, [line, outbox.run_root(run.destination, run.id)])

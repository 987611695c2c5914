"""At most once: an attempt is claimed before its effect begins, and never silently repeated.

Exactly-once is impossible for arbitrary effects; an unknown outcome is *in doubt*.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol
from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.audit import AuditKind, call_subject, request_subject
from agent.domain.errors import NotFound
from agent.domain.policy import check_epoch
from agent.domain.request import ExecutionStatus
from agent.domain.run import AnswerKind, CallAnswer, CallState, RunLease
from agent.domain.short_ids import short_id
from agent.fault_points import point
from agent.store import (
    audit,
    call_locks,
    calls,
    exclusions,
    executions,
    outbox,
    report_locks,
    request_locks,
    requests,
    run_leases,
    runs,
)
from agent.store.audit import AuditEntry, ChainHead
from agent.store.call_locks import StoredCall
from agent.store.executions import CallAttempt
from agent.store.ids import new_id
from agent.store.report_locks import ReportedAttempt
from agent.store.requests import NewRequest
from agent.store.runs import LockedRun
from agent.usecases import attempts, call_answers
from agent.usecases.attempts import LEASE_SECONDS, Outcome
from agent.usecases.joint import SKIPPED, JointUseCase, Settled, Skipped
from agent.usecases.requests.opening import OpenOutcome, write_request
from signoff.description import bounded
from signoff.errors import Conflict


class ClaimedAttempt(Protocol):
    @property
    def execution_id(self) -> UUID: ...
    @property
    def run_id(self) -> UUID: ...
    @property
    def request_id(self) -> UUID | None: ...
    @property
    def worker(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Report:
    claim: ClaimedAttempt
    outcome: Outcome

    @property
    def subject(self) -> str:
        return call_subject(self.claim.run_id, self.claim.request_id)


class WriteReports(JointUseCase[Report, ReportedAttempt, bool]):
    """Write how each attempt ended, and answer its run.

    False: another outcome exists; this one is recorded beside it. A success ends an unsettled doubt. Repeating a
    report has no effect. Members are attempts of different runs.
    """

    async def lock(
        self, tx: Transaction, members: Sequence[Report], *, wait: bool
    ) -> list[ReportedAttempt | Skipped]:
        point("after_effect")
        tx.after_commit(partial(point, "after_result"))
        locked = await report_locks.lock(
            tx,
            [each.claim.execution_id for each in members],
            [each.claim.run_id for each in members],
            [each.subject for each in members],
            wait=wait,
        )
        return [locked.get(each.claim.execution_id, SKIPPED) for each in members]

    def missing(self, member: Report) -> NotFound:
        return NotFound(f"no execution {member.claim.execution_id}")

    async def act(
        self, tx: Transaction, member: Report, found: ReportedAttempt, *, wait: bool
    ) -> Settled[bool]:
        attempt, worker = found.attempt, member.claim.worker
        if attempts.is_repeated(attempt, member.outcome):
            return True
        own = attempt.worker == worker
        on_time = attempt.status is ExecutionStatus.CLAIMED and own
        if on_time and member.outcome.retry_after is not None and is_wanted(found.run, attempt):
            try_again(tx, found.run, attempt, member.outcome, found.head)
        elif on_time:
            write_outcome(tx, found.run, attempt, member.outcome, found.head)
        elif own and attempts.ends_doubt(attempt, member.outcome):
            _end_doubt(tx, found, member.outcome)
            return True
        elif attempt.late_result is None:
            attempts.write_late(
                tx, attempt, member.outcome, found.head, attempt.actor if own else f"worker:{worker}"
            )
        return on_time


def write_outcome(
    tx: Transaction, run: LockedRun, attempt: CallAttempt, outcome: Outcome, head: ChainHead
) -> None:
    attempts.write_outcome(tx, attempt, outcome, head, attempt.actor)
    if outcome.status is ExecutionStatus.IN_DOUBT:
        calls.mark_in_doubt(tx, attempt.call.id)
        _announce_doubt(tx, run, attempt)
    else:
        kind = AnswerKind.RESULT if outcome.status is ExecutionStatus.SUCCEEDED else AnswerKind.ERROR
        call_answers.answer(tx, run, attempt.call, CallAnswer(kind, outcome.text))


def is_wanted(run: LockedRun, attempt: CallAttempt) -> bool:
    return not run.over or attempt.call.repeats is not None


def try_again(
    tx: Transaction, run: LockedRun, attempt: CallAttempt, failed: Outcome, head: ChainHead
) -> None:
    """The next attempt may begin at once, or after ``retry_after`` seconds."""
    attempts.finish(tx, attempt.id, ExecutionStatus.FAILED, failed.text)
    calls.make_ready_again(tx, attempt.call.id, run.agent, failed.retry_after)
    lost = failed.retry_after is None
    actor = audit.SYSTEM if lost else attempt.actor
    detail = {"execution": str(attempt.id), "lost": lost, "retried": True}
    audit.append(tx, head, AuditEntry(AuditKind.EXECUTION_FAILED, actor, detail))
    outbox.enqueue(tx, attempts.card(attempt))


def _end_doubt(tx: Transaction, found: ReportedAttempt, outcome: Outcome) -> None:
    run, attempt = found.run, found.attempt
    attempts.write_end_of_doubt(tx, attempt, outcome, found.head, attempt.actor)
    call_answers.answer(tx, run, attempt.call, CallAnswer(AnswerKind.RESULT, outcome.text))
    if run.destination is None:
        return
    outgoing = [outbox.run_root(run.destination, run.id)]
    if attempt.request_id is None:
        facts: dict[str, object] = {"text": "succeeded", "tool": attempt.call.tool}
        outgoing.append(outbox.run_line(run.destination, run.id, "settled", **facts))
    outbox.enqueue(tx, outgoing)


def _announce_doubt(tx: Transaction, run: LockedRun, attempt: CallAttempt) -> None:
    """Cardless calls are settled in the run's thread, so it mentions the requester."""
    if run.destination is None:
        return
    facts: dict[str, object] = {"tool": attempt.call.tool}
    if attempt.request_id is not None:
        facts["request"] = short_id(attempt.request_id)
    else:
        facts |= {"execution": str(attempt.id), "call": str(attempt.call.id)}
    if run.requester is not None:
        facts["people"] = [run.requester.user_id]
    line = outbox.run_line(run.destination, run.id, "in_doubt", **facts)
    outbox.enqueue(tx, [line, outbox.run_root(run.destination, run.id)])


async def void_and_ask(
    db: Database,
    call_id: UUID,
    new: NewRequest,
    because: str = "what was shown has changed",
    *,
    outdated: bool = False,
) -> OpenOutcome:
    """Raises ``NotFound``, ``OutdatedPolicy``, and ``Conflict`` if the call no longer waits."""
    async with db.transaction() as tx:
        run, call = await _lock(tx, call_id)
        check_epoch(new.policy_epoch, call.policy_epoch)
        if call.state is not CallState.READY or call.request_id is None:
            raise Conflict("the call is not waiting to run")
        if run.over and call.repeats is None:
            raise Conflict("the run has ended, so nothing would receive the outcome")
        if await request_locks.lock_client_id(tx, new.principal, new.client_id) is not None:
            raise Conflict("people were already asked again about this call")
        request_id = new_id()
        requests.void(tx, call.request_id)
        old = await audit.lock_head(tx, call.subject)
        detail = {"because": because, "anew": str(request_id)}
        audit.append(tx, old, AuditEntry(AuditKind.REQUEST_REOPENED, audit.SYSTEM, detail))
        if call.editor is not None:
            new = replace(new, editor=call.editor, changes=call.changes)
        calls.mark_asked(tx, new, blocking=call.blocking)
        if call.blocking:
            runs.park(tx, run.id)
        subject = request_subject(request_id)
        _, involved = await exclusions.involved(tx, call_id)
        write_request(tx, request_id, new, call.ask_no + 1, audit.new_head(subject, old.at), involved)
        outbox.enqueue(tx, [*attempts.card(call), *attempts.line(call, "outdated" if outdated else "voided")])
    return OpenOutcome(request_id, created=True)


async def call_off(db: Database, call_id: UUID, reason: str, *, principal: str) -> bool:
    """Call off an approved call. False: begun or not approved. Raises ``NotFound``."""
    async with db.transaction() as tx:
        _, call = await _lock(tx, call_id)
        if call.state is not CallState.READY:
            return False
        calls.stop(tx, call_id, call.agent, reason)
        detail = {"call": str(call_id), "reason": bounded(reason, 200)}
        await audit.record(tx, call.subject, AuditKind.APPROVAL_CALLED_OFF, principal, detail)
        outbox.enqueue(tx, [*attempts.card(call), *attempts.line(call, "stopped", text=reason)])
    return True


async def _lock(tx: Transaction, call_id: UUID) -> tuple[LockedRun, StoredCall]:
    """Lock the call behind run and request; holds the pause switch. Raises ``NotFound``."""
    run_id = await call_locks.run_to_judge(tx, call_id)
    run = await runs.lock(tx, run_id) if run_id else None
    await request_locks.lock_of_call(tx, call_id)
    call = await call_locks.lock(tx, call_id)
    if run is None or call is None:
        raise NotFound(f"no tool call {call_id}")
    return run, call


async def renew_leases(
    db: Database, worker: str, execution_ids: Collection[UUID], turns: Collection[RunLease]
) -> list[UUID]:
    """Lost leases stay lost. Returns the executions whose leases were renewed.

    Each statement commits alone: a process that is suspended between them holds no lock.
    """
    async with db.counting() as connection:
        if turns:
            await run_leases.renew(connection, turns, LEASE_SECONDS)
        if not execution_ids:
            return []
        return await executions.renew_leases(connection, execution_ids, worker, LEASE_SECONDS)

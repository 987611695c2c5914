"""The use cases on an attempt to run a call: claim, report, ask anew, rescue, beat.

At most once: an attempt is claimed before its effect begins, and one whose worker is gone is never silently run
again. Nobody can promise exactly-once for an arbitrary effect; what cannot be known is called *in doubt*.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy import Row

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.audit import AuditKind, request_subject, run_subject
from agent.domain.changes import between, edit_note
from agent.domain.errors import NotFound
from agent.domain.request import ExecutionStatus
from agent.domain.run import AnswerKind, CallAnswer, RunLease
from agent.fault_points import point
from agent.store import (
    ancestors,
    audit,
    calls,
    exclusions,
    executions,
    outbox,
    request_locks,
    requests,
    run_starts,
    runs,
)
from agent.store.audit import AuditEntry, ChainHead
from agent.store.ids import new_id
from agent.store.outbox import Destination, OutboxMessage
from agent.store.requests import NewRequest
from agent.store.views.requests import person, stored_changes
from agent.usecases.batches import TRANSIENT_DB_ERRORS, FailedItems
from agent.usecases.requests.opening import OpenOutcome, write_request
from signoff.errors import Conflict
from signoff.values import Action

LEASE_SECONDS = 10.0
"""How long an attempt, or a model turn, stays its worker's without a heartbeat (every 2 s)."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to cause the effect once. ``action`` is what was approved, from its canonical bytes."""

    execution_id: UUID
    call_id: UUID
    run_id: UUID
    attempt: int
    action: Action
    request_id: UUID | None
    worker: str

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this call."""
        return str(self.call_id)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended: ``succeeded`` with the result, ``failed`` or ``in_doubt`` with what is known."""

    status: ExecutionStatus
    text: str
    seconds: float = 0.0


async def claim(db: Database, call_id: UUID, *, worker: str, idempotent: bool) -> Claim | None:
    """Take the one open attempt at a ready call, if what it would run is what was decided.

    ``None``: there is nothing to run (any more), its agent is paused, or its run has ended and nobody wanted the
    call. The comparison with the decision is made under the call's lock, which comes behind its run's.
    """
    async with db.transaction() as tx:
        begun = await _begin(tx, call_id, worker, idempotent=idempotent)
        if begun is None:
            return None
        calls.claim(tx, call_id)
    point("after_claim")
    return begun[0]


async def delegate(db: Database, call_id: UUID, *, worker: str, agent: str, version: str) -> UUID | None:
    """Let another agent carry out a ready call: its run begins with the call, and answers it when it ends.

    The attempt is over at once, since what was decided is that the task is handed down; what the agent below then
    does is judged call by call. ``None`` as for ``claim``. Returns the id of the run below.
    """
    async with db.transaction() as tx:
        begun = await _begin(tx, call_id, worker, idempotent=True)
        if begun is None:
            return None
        claimed, head = begun
        run_id = new_id()
        task = str(claimed.action.arguments["task"])
        below = await ancestors.child_run(tx, claimed.run_id, call_id, agent, version, task)
        await run_starts.begin_run(tx, run_id, below)
        executions.finish(tx, claimed.execution_id, ExecutionStatus.SUCCEEDED, f"handed down to run {run_id}")
        detail = {"execution": str(claimed.execution_id), "attempt": claimed.attempt, "run": str(run_id)}
        audit.append(tx, head, AuditEntry(AuditKind.EXECUTION_SUCCEEDED, f"worker:{worker}", detail))
        calls.delegate(tx, call_id)
    return run_id


async def _begin(
    tx: Transaction, call_id: UUID, worker: str, *, idempotent: bool
) -> tuple[Claim, ChainHead] | None:
    """An attempt at a ready call, and the head of its chain behind it."""
    found = await calls.lock_ready(tx, call_id)
    if found is None:
        return None
    call, row = found
    if call.state != "ready" or call.paused or not _allowed(call):
        return None
    if call.in_vain and not call.wanted_again:
        await _stop(tx, call_id)
        return None
    action = Action.from_canonical(bytes(call.decided_action or call.action))
    execution_id = new_id()
    executions.insert(
        tx,
        execution_id,
        call_id=call_id,
        request_id=call.request_id,
        attempt=call.attempts + 1,
        digest=action.digest,
        idempotent=idempotent,
        worker=worker,
        lease_seconds=LEASE_SECONDS,
    )
    head = ChainHead(row.subject, row.seq, row.hash, row.at) if row else await _head(tx, call)
    detail = {"execution": str(execution_id), "call": str(call_id), "attempt": call.attempts + 1}
    detail["digest"] = action.digest.hex()
    after = audit.append(tx, head, AuditEntry(AuditKind.EXECUTION_CLAIMED, f"worker:{worker}", detail))
    outbox.enqueue(tx, _card_of(call))
    claimed = Claim(execution_id, call_id, call.run_id, call.attempts + 1, action, call.request_id, worker)
    return claimed, after


async def _stop(tx: Transaction, call_id: UUID) -> None:
    """After the end of its run nothing begins but what a person then wanted: asked again, or settled as Retry."""
    calls.stop(tx, call_id)


def _allowed(call: Row[Any]) -> bool:
    """A call that people were asked about runs only as decided: approved, not void, byte for byte.

    The audit log must say the same: rows that were altered or invented in the database run nothing.
    """
    if call.ask_no == 0:
        return call.request_id is None and call.action is not None
    if call.outcome != "approved" or call.voided_at is not None or call.decided_action is None:
        return False
    digest = Action.from_canonical(bytes(call.decided_action)).digest
    return bool(digest == call.decided_digest == call.recorded_digest)


async def report(db: Database, claimed: Claim, outcome: Outcome) -> bool:
    """Write how the attempt ended, and let its run hear of it.

    False: another outcome had been written already (the lease was over, a person settled it). This result is then
    recorded beside it and overwrites nothing. The same report again (a COMMIT whose answer was lost) is one.
    """
    point("after_effect")
    async with db.transaction() as tx:
        run = await runs.lock(tx, claimed.run_id)
        attempt = await executions.lock(tx, claimed.execution_id)
        if run is None or attempt is None:
            raise NotFound(f"no execution {claimed.execution_id}")
        if attempt.status == outcome.status.value and outcome.text == (attempt.result or attempt.error or ""):
            return True
        head = await _head(tx, attempt, run.id)
        on_time = bool(attempt.status == "claimed" and attempt.worker == claimed.worker)
        if on_time:
            _finish(tx, run, attempt, outcome, head)
        else:
            executions.record_late(tx, claimed.execution_id, f"{outcome.status.value}: {outcome.text}")
            detail = {"execution": str(claimed.execution_id), "status": outcome.status.value}
            entry = AuditEntry(AuditKind.EXECUTION_LATE_RESULT, f"worker:{claimed.worker}", detail)
            audit.append(tx, head, entry)
            outbox.enqueue(tx, _line(attempt, "late_result", text=outcome.status.value))
    point("after_result")
    return on_time


_KINDS = {
    ExecutionStatus.SUCCEEDED: AuditKind.EXECUTION_SUCCEEDED,
    ExecutionStatus.FAILED: AuditKind.EXECUTION_FAILED,
    ExecutionStatus.IN_DOUBT: AuditKind.EXECUTION_IN_DOUBT,
}


def _finish(
    tx: Transaction, run: runs.LockedRun, attempt: Row[Any], outcome: Outcome, head: ChainHead
) -> None:
    executions.finish(tx, attempt.id, outcome.status, outcome.text)
    detail = {"execution": str(attempt.id), "attempt": attempt.attempt}
    audit.append(tx, head, AuditEntry(_KINDS[outcome.status], f"worker:{attempt.worker}", detail))
    if outcome.status is ExecutionStatus.IN_DOUBT:
        calls.mark_in_doubt(tx, attempt.call_id)
        _tell_doubt(tx, run, attempt)
    else:
        kind = AnswerKind.RESULT if outcome.status is ExecutionStatus.SUCCEEDED else AnswerKind.ERROR
        runs.answer_call(tx, run, _ended(attempt), CallAnswer(kind, outcome.text))
    facts: dict[str, Any] = {"seconds": outcome.seconds}
    if outcome.status is not ExecutionStatus.SUCCEEDED:
        facts["text"] = outcome.text[:500]
    outbox.enqueue(tx, [*_card_of(attempt), *_line(attempt, outcome.status.value, **facts)])


def _tell_doubt(tx: Transaction, run: runs.LockedRun, attempt: Row[Any]) -> None:
    """Of a call without a card of its own: the run's thread says who may settle it, and calls its requester."""
    if attempt.request_id is not None or run.destination is None:
        return
    facts: dict[str, Any] = {"tool": attempt.tool, "execution": str(attempt.id), "call": str(attempt.call_id)}
    if run.requester is not None:
        facts["people"] = [run.requester.user_id]
    outbox.enqueue(tx, [outbox.run_line(run.destination, run.id, "in_doubt", **facts)])


async def void_and_ask(db: Database, call_id: UUID, new: NewRequest) -> OpenOutcome:
    """What people were shown has changed since they approved: void the approval and ask with the difference.

    Raises ``NotFound``, and ``Conflict`` when the call is not waiting to run any more or its run has ended.
    """
    async with db.transaction() as tx:
        run_id = await calls.run_of(tx, call_id)
        run = await runs.lock(tx, run_id) if run_id else None
        await request_locks.lock_of_call(tx, call_id)
        call = await calls.lock(tx, call_id)
        if run is None or call is None:
            raise NotFound(f"no tool call {call_id}")
        if call.state != "ready" or call.request_id is None:
            raise Conflict("the call is not waiting to run")
        if run.over and call.repeats is None:
            raise Conflict("the run has ended: nobody would hear the outcome")
        if await request_locks.lock_client_id(tx, new.principal, new.client_id) is not None:
            raise Conflict("the call was asked about anew already")
        request_id = new_id()
        requests.void(tx, call.request_id)
        old = await _head(tx, call)
        detail = {"because": "what was shown has changed", "anew": str(request_id)}
        audit.append(tx, old, AuditEntry(AuditKind.REQUEST_REOPENED, audit.SYSTEM, detail))
        if (by := person(call.editor_team_id, call.editor_user_id)) is not None:
            new = replace(new, editor=by, changes=stored_changes(call.changes))
        calls.mark_asked(tx, new, blocking=call.blocking)
        if call.blocking:
            runs.park(tx, run.id)
        subject = request_subject(request_id)
        _, involved = await exclusions.involved(tx, call_id, None)
        write_request(tx, request_id, new, call.ask_no + 1, audit.new_head(subject, old.at), involved)
        outbox.enqueue(tx, [*_card_of(call), *_line(call, "voided")])
    return OpenOutcome(request_id, created=True)


async def call_off(db: Database, call_id: UUID, reason: str, *, principal: str) -> bool:
    """An approved call that has not begun will not: its agent is told. False when it has begun, or is not approved."""
    async with db.transaction() as tx:
        run_id = await calls.run_of(tx, call_id)
        run = await runs.lock(tx, run_id) if run_id else None
        await request_locks.lock_of_call(tx, call_id)
        call = await calls.lock(tx, call_id)
        if run is None or call is None or call.state != "ready":
            return False
        calls.stop(tx, call_id, reason)
        entry = AuditEntry(
            AuditKind.APPROVAL_CALLED_OFF, principal, {"call": str(call_id), "reason": reason[:200]}
        )
        audit.append(tx, await _head(tx, call), entry)
        outbox.enqueue(tx, [*_card_of(call), *_line(call, "stopped", text=reason)])
    return True


async def rescue(db: Database, *, batch_size: int = 200) -> int:
    """Attempts whose worker is gone: in doubt, or ready for another attempt if the tool is idempotent.

    Once the run has ended, an attempt is never made again by itself. One that cannot be written holds up no other.
    """
    async with db.connection() as connection:
        lost = await executions.lost(connection, batch_size, _BROKEN.ids)
    rescued = 0
    for execution_id in lost:
        try:
            rescued += await _rescue_one(db, execution_id)
        except TRANSIENT_DB_ERRORS:
            raise
        except Exception as error:
            _BROKEN.note(execution_id, error)
    return rescued


_BROKEN = FailedItems("rescue")


async def _rescue_one(db: Database, execution_id: UUID) -> bool:
    async with db.transaction() as tx:
        run_id = await executions.run_of(tx, execution_id)
        run = await runs.lock(tx, run_id) if run_id else None
        attempt = await executions.lock(tx, execution_id)
        if run is None or attempt is None or attempt.status != "claimed" or not attempt.lease_over:
            return False
        head = await _head(tx, attempt, run.id)
        words = f"the worker {attempt.worker} disappeared during attempt {attempt.attempt}"
        if attempt.idempotent and not (run.over and attempt.repeats is None):
            executions.finish(tx, execution_id, ExecutionStatus.FAILED, words)
            calls.make_ready_again(tx, attempt.call_id)
            detail = {"execution": str(execution_id), "lost": True, "retried": True}
            audit.append(tx, head, AuditEntry(AuditKind.EXECUTION_FAILED, audit.SYSTEM, detail))
            outbox.enqueue(tx, _card_of(attempt))
        else:
            _finish(tx, run, attempt, Outcome(ExecutionStatus.IN_DOUBT, words), head)
    return True


async def renew_leases(
    db: Database, worker: str, execution_ids: Collection[UUID], run_leases: Collection[RunLease]
) -> None:
    """Extend what this worker holds; what was taken from it stays taken."""
    if not execution_ids and not run_leases:
        return
    async with db.transaction() as tx:
        if run_leases:
            runs.renew_leases(tx, run_leases, LEASE_SECONDS)
        if execution_ids:
            executions.renew_leases(tx, execution_ids, worker, LEASE_SECONDS)


def _ended(attempt: Row[Any]) -> runs.EndedCall:
    return runs.EndedCall(
        id=attempt.call_id,
        tool=attempt.tool,
        raw_arguments=attempt.raw_arguments,
        blocking=attempt.blocking,
        request_id=attempt.request_id,
        on_reject=None,
        repeats=attempt.repeats,
        edited=edit_note(between(attempt.proposed_action, attempt.edited_action)),
    )


async def _head(connection: Any, row: Row[Any], run_id: UUID | None = None) -> ChainHead:
    """The chain that tells of this call: its request's, or its run's when nobody was asked."""
    subject = request_subject(row.request_id) if row.request_id else run_subject(run_id or row.run_id)
    return (await audit.lock_heads(connection, [subject]))[subject]


def _card_of(row: Row[Any]) -> list[OutboxMessage]:
    if not row.request_id:
        return []
    return [outbox.card(Destination(row.team_id, row.channel_id), row.request_id)]


def _line(row: Row[Any], line: str, **facts: Any) -> list[OutboxMessage]:
    if not row.request_id:
        return []
    return [outbox.request_line(Destination(row.team_id, row.channel_id), row.request_id, line, **facts)]

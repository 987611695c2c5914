"""What becomes of a run's call: let through, refused, answered, delegated, asleep, withdrawn."""

from __future__ import annotations

from uuid import UUID

from agent.database.pools import Database
from agent.domain.audit import AuditKind
from agent.domain.call_answers import stop_cause
from agent.domain.errors import NoRoom, NotFound, OutdatedPolicy
from agent.domain.judgement import Judgement
from agent.domain.policy import check_epoch
from agent.domain.request import ExecutionStatus
from agent.domain.run import AnswerKind, CallAnswer, CallExecutor, CallState, RunStatus
from agent.store import ancestors, audit, call_locks, calls, judgements, outbox, runs, views
from agent.store.audit import AuditEntry
from agent.store.ids import new_id
from agent.usecases import requests
from agent.usecases.calls import attempts, call_answers
from agent.usecases.calls.claims import CallToClaim, begin_attempt
from agent.usecases.runs import endings
from agent.usecases.runs.cancellation import cancel_by_operator, end_orphans
from agent.usecases.runs.endings import RunEnding
from agent.usecases.runs.starts import write_run
from signoff.errors import CollaborationError
from signoff.values import Action


async def pass_call(
    db: Database,
    call_id: UUID,
    action: Action,
    *,
    executor: CallExecutor = CallExecutor.HERE,
    executor_key: str | None = None,
    policy_epoch: int = 0,
) -> bool:
    """The claim records what is allowed. False: already evaluated, or the run has ended. Raises ``OutdatedPolicy``."""
    async with db.transaction() as tx:
        call = await call_locks.lock_new(tx, call_id)
        if call is None or call.state is not CallState.NEW or call.unneeded:
            return False
        check_epoch(policy_epoch, call.policy_epoch)
        calls.mark_ready(tx, call_id, action, executor, executor_key)
    return True


async def refuse_call(
    db: Database,
    call_id: UUID,
    answer: CallAnswer,
    *,
    policy_epoch: int | None = None,
    judgement: Judgement | None = None,
) -> bool:
    """False: already evaluated. Raises ``OutdatedPolicy``. ``policy_epoch``: if policy refuses."""
    async with db.transaction() as tx:
        call = await call_locks.lock_new(tx, call_id)
        if call is None or call.state is not CallState.NEW:
            return False
        if policy_epoch is not None:
            check_epoch(policy_epoch, call.policy_epoch)
        calls.refuse(tx, call_id, call.agent, answer)
        if judgement is not None:
            judgements.insert(tx, judgement, call_id=call_id)
    return True


async def answer_call(db: Database, call_id: UUID) -> CollaborationError | None:
    """Give the model the answer, or end the run (and its parents). Returns the error that ended the run.

    A refused call changes only behind its run's lock, so it is not locked.
    """
    async with db.transaction() as tx:
        run_id = await call_locks.run_of(tx, call_id)
        run = await runs.lock(tx, run_id) if run_id else None
        call = await call_locks.find(tx, call_id)
        if run is None or call is None:
            raise NotFound(f"no tool call {call_id}")
        if call.state is not CallState.REFUSED or call.answer is None:
            return None
        given = call.answer
        cause = None if run.over else stop_cause(given.kind, call.on_reject)
        if cause is None:
            call_answers.answer(tx, run, call.ended, given)
        else:
            facts = {"request": str(call.request_id), "reason": given.text, "user": call.decided_by}
            how = RunEnding(RunStatus.DENIED, cause, reason=given.text, facts=facts)
            locked = await endings.lock_with_ancestors(tx, run)
            await endings.end(tx, locked, locked.runs, how, refused=(call.ended, given))
    if cause is None:
        return None
    await end_orphans(db)
    return CollaborationError(
        cause, request_id=str(call.request_id), reason=given.text or None, reviewer=call.decided_by
    )


async def delegate(
    db: Database, call: CallToClaim, *, agent: str, version: str, background: bool = False
) -> UUID | None:
    """Start a child run; its end answers the call. ``None``: nothing to run. Raises ``OutdatedPolicy``.

    ``background``: the parent's model goes on at once.
    """
    if (above_id := call.run_id) is None:
        return None
    async with db.transaction() as tx:
        locked = await call_locks.lock_ready(
            tx, [call.call_id], [above_id], [call.subject], uses=call.unapproved_uses, wait=True
        )
        found = locked.get(call.call_id)
        begun = await begin_attempt(tx, found, call.terms) if found else None
        if isinstance(begun, OutdatedPolicy):
            raise begun
        if begun is None or isinstance(begun, NoRoom):
            return None
        claimed, head = begun
        run_id = new_id()
        task = str(claimed.action.arguments["task"])
        child = await ancestors.child_run(tx, above_id, call.call_id, agent, version, task)
        await write_run(tx, run_id, child)
        delegated = f"delegated to run {run_id}"
        attempts.finish(tx, claimed.execution_id, ExecutionStatus.SUCCEEDED, delegated, head.at)
        detail = {"execution": str(claimed.execution_id), "attempt": claimed.attempt, "run": str(run_id)}
        audit.append(tx, head, AuditEntry(AuditKind.EXECUTION_SUCCEEDED, f"worker:{claimed.worker}", detail))
        calls.delegate(tx, call.call_id, blocking=not background)
        if background and found is not None and found.call.blocking:
            above = await views.run_view(tx, above_id)  # already locked
            waits_for = above.awaiting_calls if above else 0
            runs.release_call(tx, above_id, found.call.agent, last=waits_for <= 1)
    return run_id


async def sleep_until_ready(db: Database, call_id: UUID, action: Action, seconds: float) -> None:
    """Let a new sleep call become due after this many seconds, unless nobody waits for it any more."""
    async with db.transaction() as tx:
        call = await call_locks.lock_new(tx, call_id)
        if call is None or call.state is not CallState.NEW or call.unneeded:
            return
        calls.sleep_until_ready(tx, call_id, action, seconds)
        if call.destination is not None:
            outbox.enqueue(tx, [outbox.run_root(call.destination, call.run_id)])


async def wake_up(db: Database, call_id: UUID) -> None:
    """Answer a sleep call whose time has come, so that its run goes on; do nothing if it is not ready."""
    async with db.transaction() as tx:
        run_id = await call_locks.run_of(tx, call_id)
        run = await runs.lock(tx, run_id) if run_id else None
        call = await call_locks.lock(tx, call_id)
        if run is None or call is None or call.state is not CallState.READY:
            return
        call_answers.answer(tx, run, call.ended, CallAnswer(AnswerKind.RESULT, "null"))
        if run.destination is not None:
            outbox.enqueue(tx, [outbox.run_root(run.destination, run.id)])


WHY = "its agent does not wait for it any more"


async def withdraw_call(db: Database, call_id: UUID, actor: str) -> None:
    """A running attempt finishes. Safe to repeat."""
    async with db.connection() as connection:
        call = await call_locks.find(connection, call_id)
        below = await ancestors.child_run_of(connection, call_id)
    if call is None:
        return
    if call.state is CallState.NEW:
        await refuse_call(db, call_id, CallAnswer(AnswerKind.WITHDRAWN, WHY))
    elif call.state is CallState.ASKED and call.request_id is not None:
        await requests.withdraw(db, call.request_id, None, WHY, principal=actor)
    elif call.state is CallState.READY and call.request_id is not None:
        await requests.call_off(db, call_id, WHY, principal=actor)
    elif call.state is CallState.READY:
        await _stop(db, call_id)
    elif call.state is CallState.DELEGATED and below is not None:
        await cancel_by_operator(db, below, actor, WHY)


async def _stop(db: Database, call_id: UUID) -> None:
    async with db.transaction() as tx:
        call = await call_locks.lock(tx, call_id)
        if call is not None and call.state is CallState.READY:
            calls.stop(tx, call_id, call.agent, WHY)

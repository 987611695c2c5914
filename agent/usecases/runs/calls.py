from __future__ import annotations

from uuid import UUID

from agent.database.pools import Database
from agent.domain.call_answers import stop_cause
from agent.domain.errors import NotFound
from agent.domain.judgement import Judgement
from agent.domain.policy import check_epoch
from agent.domain.run import CallAnswer, CallExecutor, CallState, RunStatus
from agent.store import call_locks, calls, judgements, runs
from agent.usecases import call_answers
from agent.usecases.runs import endings
from agent.usecases.runs.cancellation import end_orphans
from agent.usecases.runs.endings import RunEnding
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

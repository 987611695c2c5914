"""The calls that a turn proposed: passed, refused, answered."""

from __future__ import annotations

from uuid import UUID

from agent.database.pools import Database
from agent.domain.errors import NotFound
from agent.domain.run import AnswerKind, CallAnswer, RunStatus
from agent.store import calls, run_endings, runs
from agent.usecases.runs.cancellation import end_orphans
from signoff.errors import CollaborationError
from signoff.values import Action


async def pass_call(db: Database, call_id: UUID, action: Action) -> bool:
    """Policy lets the call run. False: it had been judged already, or its run has ended."""
    async with db.transaction() as tx:
        call = await calls.lock_new(tx, call_id)
        if call is None or call.state != "new" or call.in_vain:
            return False
        calls.mark_ready(tx, call_id, action)
    return True


async def refuse_call(db: Database, call_id: UUID, answer: CallAnswer) -> bool:
    """The call will not run and nobody is asked. False: it had been judged already."""
    async with db.transaction() as tx:
        call = await calls.lock(tx, call_id)
        if call is None or call.state != "new":
            return False
        calls.refuse(tx, call_id, answer)
    return True


async def answer_call(db: Database, call_id: UUID) -> CollaborationError | None:
    """Let the run hear of a refused call: the model is told, or the run (and its parents) ends.

    Returns the error that ended the run, to be logged and raised by the runtime; ``None`` otherwise.
    """
    async with db.transaction() as tx:
        run_id = await calls.run_of(tx, call_id)
        run = await runs.lock(tx, run_id) if run_id else None
        call = await calls.lock(tx, call_id)
        if run is None or call is None:
            raise NotFound(f"no tool call {call_id}")
        if call.state != "refused":
            return None
        given = CallAnswer(AnswerKind(call.answer_kind), call.answer or "")
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
        if cause is None:
            runs.answer_call(tx, run, ended, given)
        else:
            runs.close_call(tx, run.id, call.id, given, blocking=call.blocking)
            facts = {"request": str(call.request_id), "reason": given.text, "user": call.decided_by}
            await run_endings.end_run(tx, run, RunStatus.DENIED, cause, upwards=True, **facts)
    if cause is None:
        return None
    await end_orphans(db)
    return CollaborationError(
        cause, request_id=str(call.request_id), reason=given.text or None, reviewer=call.decided_by
    )

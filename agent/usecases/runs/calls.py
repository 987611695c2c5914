"""The calls that a turn proposed: passed, refused, answered."""

from __future__ import annotations

from uuid import UUID

from agent.database.batch import Batch
from agent.database.pools import Database
from agent.domain.errors import NotFound
from agent.domain.run import AnswerKind, CallAnswer, RunStatus
from agent.store import calls, locks, run_endings, runs
from agent.usecases.runs.cancellation import end_orphans
from signoff.errors import CollaborationError
from signoff.values import Action


async def pass_call(db: Database, call_id: UUID, action: Action) -> bool:
    """Policy lets the call run. False: it had been judged already, or its run has ended."""
    async with db.transaction() as connection:
        call = await locks.new_call(connection, call_id)
        if call is None or call.state != "new" or call.in_vain:
            return False
        batch = Batch()
        calls.mark_ready(batch, call_id, action)
        await batch.send(connection)
    return True


async def refuse_call(db: Database, call_id: UUID, answer: CallAnswer) -> bool:
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
        batch = Batch()
        if cause is None:
            runs.answer_call(batch, run, ended, given)
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

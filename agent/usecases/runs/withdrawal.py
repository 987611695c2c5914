from __future__ import annotations

from uuid import UUID

from agent.database.pools import Database
from agent.domain.run import AnswerKind, CallAnswer, CallState
from agent.store import ancestors, call_locks, calls
from agent.usecases import executions, requests
from agent.usecases.runs.calls import refuse_call
from agent.usecases.runs.cancellation import cancel_by_operator

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
        await executions.call_off(db, call_id, WHY, principal=actor)
    elif call.state is CallState.READY:
        await _stop(db, call_id)
    elif call.state is CallState.DELEGATED and below is not None:
        await cancel_by_operator(db, below, actor, WHY)


async def _stop(db: Database, call_id: UUID) -> None:
    async with db.transaction() as tx:
        call = await call_locks.lock(tx, call_id)
        if call is not None and call.state is CallState.READY:
            calls.stop(tx, call_id, call.agent, WHY)

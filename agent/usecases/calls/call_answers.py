"""How an answer reaches a run: as a result, a note, or the run's end."""

from __future__ import annotations

from agent.database.transaction import Transaction
from agent.domain.call_answers import EndedCall, note_wakes
from agent.domain.run import CallAnswer, CallState
from agent.store import call_locks, calls, runs
from agent.store.runs import LockedRun


def answer(tx: Transaction, run: LockedRun | None, call: EndedCall, given: CallAnswer) -> None:
    """Background and repeated calls become a note; a program reads the answer itself."""
    calls.answer(tx, call.id, given)
    if run is None:
        return
    if call.blocking:
        runs.count_answer(
            tx, run.id, run.agent, last=(run.branches or run.awaiting_calls <= 1) and not run.over
        )
        return
    runs.add_message(tx, run, "note", call.note(given))
    if note_wakes(run.status, call, given):
        runs.reopen(tx, run.id, run.agent)


def close(tx: Transaction, run: LockedRun, call: EndedCall, given: CallAnswer) -> None:
    """The run ends in this transaction: the model gets no further turn."""
    calls.answer(tx, call.id, given)
    if call.blocking:
        runs.count_answer(tx, run.id, run.agent, last=False)


async def lock_delegated(tx: Transaction, child: LockedRun) -> EndedCall | None:
    """The parent run must be locked."""
    call = await call_locks.lock(tx, child.parent_call_id) if child.parent_call_id else None
    return call.ended if call is not None and call.state is CallState.DELEGATED else None


async def answer_parent(tx: Transaction, child: LockedRun, given: CallAnswer) -> None:
    """Answer the call that delegated to this run, with its parent's lock; do nothing for a root run."""
    if child.parent_run_id is None:
        return
    parent = await runs.lock(tx, child.parent_run_id)
    call = await lock_delegated(tx, child)
    if parent is not None and call is not None:
        answer(tx, parent, call, given)

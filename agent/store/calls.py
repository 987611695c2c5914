"""Writes about tool calls. The call's row is locked by the caller."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import text

from agent.database import jobs
from agent.database.transaction import Connection, Transaction
from agent.domain.run import CallAnswer, ProposedCall
from agent.store.ids import new_id
from agent.store.requests import NewRequest
from signoff.values import Action


def propose(tx: Transaction, run_id: UUID, turn: int, proposed: tuple[ProposedCall, ...]) -> None:
    """The calls of a model's turn, not judged yet; each is looked at by a job of its own."""
    for index, call in enumerate(proposed):
        call_id = new_id()
        tx.add(
            _PROPOSE,
            id=call_id,
            run=run_id,
            turn=turn,
            index=index,
            model_id=call.model_call_id,
            tool=call.tool,
            arguments=call.raw_arguments,
        )
        tx.hint(jobs.execute_call(call_id))


def mark_asked(tx: Transaction, new: NewRequest, *, blocking: bool) -> None:
    """People are asked about the call; without a hook of its own it counts as announced."""
    tx.add(
        _ASK,
        call=new.call_id,
        version=new.action.tool_version,
        action=new.action.canonical,
        digest=new.action.digest,
        blocking=blocking,
        announced=not new.has_pending_hook,
    )


def mark_ready(tx: Transaction, call_id: UUID, action: Action) -> None:
    """Policy lets the call run."""
    tx.add(_LET_RUN, call=call_id, version=action.tool_version, action=action.canonical, digest=action.digest)


def refuse(tx: Transaction, call_id: UUID, answer: CallAnswer) -> None:
    """Nobody needs to be asked: the call will not run."""
    tx.add(_REFUSE, call=call_id, kind=answer.kind.value, answer=answer.text)
    tx.hint(jobs.execute_call(call_id))


def mark_prepared(tx: Transaction, call_id: UUID, action: bytes) -> None:
    """The tool's ``on_pending`` hook is about to run for this action."""
    tx.add(_HOLD, call=call_id, action=action)


def stop(tx: Transaction, call_id: UUID, reason: str = "the run has ended; nothing ran") -> None:
    """It might have run and will not: its run has ended before it began, or an operator called it off."""
    tx.add(_STOP, call=call_id, reason=reason)
    tx.hint(jobs.execute_call(call_id))


def mark_announced(tx: Transaction, call_id: UUID) -> None:
    """The tool's ``on_pending`` hook has run for what people are asked about now."""
    tx.add(_ANNOUNCE, call=call_id)


def clear_prepared(tx: Transaction, call_id: UUID, action: bytes) -> None:
    """The tool has heard that this action is not asked about any more."""
    tx.add(_LET_GO, call=call_id, action=action)


def supersede_action(tx: Transaction, call_id: UUID) -> None:
    """People are asked about another action now: a tool that prepared for the one before has to hear of it."""
    tx.add(_MOVE_ON, call=call_id)
    tx.hint(jobs.execute_call(call_id))


def claim(tx: Transaction, call_id: UUID) -> None:
    """An attempt begins."""
    tx.add(_CLAIM, call=call_id)


def delegate(tx: Transaction, call_id: UUID) -> None:
    """Another agent works on it."""
    tx.add(_DELEGATE, call=call_id)


def mark_in_doubt(tx: Transaction, call_id: UUID) -> None:
    """Nobody can know whether the attempt had its effect."""
    tx.add(_DOUBT, call=call_id)


def make_ready_again(tx: Transaction, call_id: UUID) -> None:
    """Another attempt may be made: a person said so, or the tool is idempotent."""
    tx.add(_READY_AGAIN, call=call_id)
    tx.hint(jobs.execute_call(call_id))


async def repeat(connection: Connection, call_id: UUID) -> tuple[UUID, bool]:
    """A new call with the same content, in the background of the same run; repeating twice is one call.

    Returns its id, and whether it is new.
    """
    fresh = new_id()
    await connection.execute(_REPEAT, {"id": fresh, "call": call_id})
    found: UUID = (await connection.execute(_REPEATED, {"call": call_id})).scalar_one()
    return found, found == fresh


_PROPOSE = """
INSERT INTO tool_call (id, run_id, turn, index, model_call_id, tool, raw_arguments, blocking)
VALUES (%(id)s, %(run)s, %(turn)s, %(index)s, %(model_id)s, %(tool)s, %(arguments)s, true)
"""
_ASK = """
UPDATE tool_call SET state = 'asked', tool_version = %(version)s, action = %(action)s, digest = %(digest)s,
       blocking = %(blocking)s, ask_no = ask_no + 1, lease_until = NULL,
       announced_at = CASE WHEN %(announced)s THEN clock_timestamp() END
WHERE id = %(call)s
"""
_LET_RUN = """
UPDATE tool_call SET state = 'ready', tool_version = %(version)s, action = %(action)s, digest = %(digest)s
WHERE id = %(call)s AND state = 'new'
"""
_REFUSE = """
UPDATE tool_call SET state = 'refused', answer_kind = %(kind)s, answer = %(answer)s
WHERE id = %(call)s AND state = 'new'
"""
_STOP = """
UPDATE tool_call SET state = 'refused', answer_kind = 'withdrawn', answer = %(reason)s
WHERE id = %(call)s AND state = 'ready'
"""
_ANNOUNCE = (
    "UPDATE tool_call SET announced_at = clock_timestamp() WHERE id = %(call)s AND announced_at IS NULL"
)
_HOLD = "UPDATE tool_call SET held = %(action)s WHERE id = %(call)s AND state = 'asked'"
_LET_GO = "UPDATE tool_call SET held = NULL WHERE id = %(call)s AND held = %(action)s"
_MOVE_ON = """
UPDATE tool_call SET announced_at = NULL WHERE id = %(call)s AND state = 'asked' AND held IS NOT NULL
"""
_CLAIM = "UPDATE tool_call SET state = 'claimed' WHERE id = %(call)s AND state = 'ready'"
_DELEGATE = "UPDATE tool_call SET state = 'delegated' WHERE id = %(call)s AND state = 'ready'"
_DOUBT = "UPDATE tool_call SET state = 'in_doubt' WHERE id = %(call)s AND state = 'claimed'"
_READY_AGAIN = "UPDATE tool_call SET state = 'ready' WHERE id = %(call)s AND state IN ('in_doubt', 'claimed')"
_REPEAT = text("""
INSERT INTO tool_call (id, run_id, turn, index, model_call_id, tool, raw_arguments, blocking, repeats)
SELECT :id, c.run_id, c.turn, (SELECT max(index) + 1 FROM tool_call WHERE run_id = c.run_id AND turn = c.turn),
       c.model_call_id, c.tool, c.raw_arguments, false, c.id
FROM tool_call AS c WHERE c.id = :call
ON CONFLICT (repeats) DO NOTHING
""")
_REPEATED = text("SELECT id FROM tool_call WHERE repeats = :call")

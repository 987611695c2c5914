"""Tool calls: locking and reading one, and moving a locked one on."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database import jobs
from agent.database.transaction import Connection, Transaction, query
from agent.domain.run import CallAnswer, ProposedCall
from agent.store import pause
from agent.store.ids import new_id
from agent.store.requests import NewRequest
from signoff.values import Action


async def run_of(connection: Connection, call_id: UUID) -> UUID | None:
    """Which run a call belongs to."""
    found: UUID | None = (await connection.execute(_RUN_OF_CALL, {"id": call_id})).scalar_one_or_none()
    return found


async def lock(connection: Connection, call_id: UUID) -> Row[Any] | None:
    """A call, locked, with the request that stands for it and its decision."""
    _, found = await query(connection, _TAKE_CALL, _CALL, call=call_id)
    return found[0] if found else None


async def lock_new(connection: Connection, call_id: UUID) -> Row[Any] | None:
    """A call to be judged, locked behind its run."""
    await connection.execute(_TAKE_RUN_OF_CALL, {"call": call_id})
    return (await connection.execute(_NEW_CALL, {"call": call_id})).one_or_none()


async def lock_ready(connection: Connection, call_id: UUID) -> tuple[Row[Any], Row[Any] | None] | None:
    """`call` behind its run, with the head of its chain if the call is ready, in one round trip.

    A parked run works again when its last waiting call was decided.
    """
    *_, found, heads = await query(
        connection, pause.HOLD, _TAKE_RUN_OF_CALL, _RESUME, _TAKE_CALL, _CALL, _HEAD_OF_CALL, call=call_id
    )
    return (found[0], heads[0] if heads else None) if found else None


async def lock_asked(connection: Connection, call_id: UUID) -> bytes | None:
    """The action that people are asked about for a call whose request is locked; the call is locked, too."""
    _, found = await query(connection, _TAKE_CALL, _ASKED_ACTION, call=call_id)
    return bytes(found[0].action) if found else None


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


_PROPOSE = text("""
INSERT INTO tool_call (id, run_id, turn, index, model_call_id, tool, raw_arguments, blocking)
VALUES (:id, :run, :turn, :index, :model_id, :tool, :arguments, true)
""")
_ASK = text("""
UPDATE tool_call SET state = 'asked', tool_version = :version, action = :action, digest = :digest,
       blocking = :blocking, ask_no = ask_no + 1, lease_until = NULL,
       announced_at = CASE WHEN :announced THEN clock_timestamp() END
WHERE id = :call
""")
_LET_RUN = text("""
UPDATE tool_call SET state = 'ready', tool_version = :version, action = :action, digest = :digest
WHERE id = :call AND state = 'new'
""")
_REFUSE = text("""
UPDATE tool_call SET state = 'refused', answer_kind = :kind, answer = :answer
WHERE id = :call AND state = 'new'
""")
_STOP = text("""
UPDATE tool_call SET state = 'refused', answer_kind = 'withdrawn', answer = :reason
WHERE id = :call AND state = 'ready'
""")
_ANNOUNCE = text(
    "UPDATE tool_call SET announced_at = clock_timestamp() WHERE id = :call AND announced_at IS NULL"
)
_HOLD = text("UPDATE tool_call SET held = :action WHERE id = :call AND state = 'asked'")
_LET_GO = text("UPDATE tool_call SET held = NULL WHERE id = :call AND held = :action")
_MOVE_ON = text("""
UPDATE tool_call SET announced_at = NULL WHERE id = :call AND state = 'asked' AND held IS NOT NULL
""")
_CLAIM = text("UPDATE tool_call SET state = 'claimed' WHERE id = :call AND state = 'ready'")
_DELEGATE = text("UPDATE tool_call SET state = 'delegated' WHERE id = :call AND state = 'ready'")
_DOUBT = text("UPDATE tool_call SET state = 'in_doubt' WHERE id = :call AND state = 'claimed'")
_READY_AGAIN = text(
    "UPDATE tool_call SET state = 'ready' WHERE id = :call AND state IN ('in_doubt', 'claimed')"
)
_REPEAT = text("""
INSERT INTO tool_call (id, run_id, turn, index, model_call_id, tool, raw_arguments, blocking, repeats)
SELECT :id, c.run_id, c.turn, (SELECT max(index) + 1 FROM tool_call WHERE run_id = c.run_id AND turn = c.turn),
       c.model_call_id, c.tool, c.raw_arguments, false, c.id
FROM tool_call AS c WHERE c.id = :call
ON CONFLICT (repeats) DO NOTHING
""")
_REPEATED = text("SELECT id FROM tool_call WHERE repeats = :call")
_RUN_OF_CALL = text("SELECT run_id FROM tool_call WHERE id = :id")
_TAKE_RUN_OF_CALL = text("""
SELECT 1 FROM agent_run WHERE id = (SELECT run_id FROM tool_call WHERE id = :call) FOR NO KEY UPDATE
""")
_TAKE_CALL = text("SELECT 1 FROM tool_call WHERE id = :call FOR NO KEY UPDATE")
_NEW_CALL = text("""
SELECT c.state::text AS state, c.run_id, c.blocking, c.ask_no, r.awaiting_calls, r.team_id, r.channel_id,
       r.ancestor_ids,
       r.status IN ('denied', 'failed', 'cancelled') AND c.repeats IS NULL AS in_vain
FROM tool_call AS c JOIN agent_run AS r ON r.id = c.run_id WHERE c.id = :call FOR NO KEY UPDATE OF c
""")
_RESUME = text("""
UPDATE agent_run SET status = 'working', updated_at = clock_timestamp()
WHERE id = (SELECT run_id FROM tool_call WHERE id = :call) AND status = 'pending_approval'
  AND NOT EXISTS (SELECT 1 FROM tool_call AS c WHERE c.run_id = agent_run.id AND c.state = 'asked' AND c.blocking)
""")
_CALL = text("""
SELECT c.id, c.run_id, c.state::text AS state, c.blocking, c.tool, c.raw_arguments, c.ask_no, c.repeats,
       c.answer_kind::text AS answer_kind, c.answer, c.action, c.digest,
       a.status IN ('denied', 'failed', 'cancelled') AND c.repeats IS NULL AS in_vain,
       EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', a.agent) OR scope = ANY (a.ancestor_agents)) AS paused,
       r.id AS request_id, r.team_id, r.channel_id, r.voided_at, r.policy ->> 'on_reject' AS on_reject,
       d.outcome::text AS outcome, d.digest AS decided_digest, d.user_id AS decided_by, v.action AS decided_action,
       (SELECT decode(detail ->> 'digest', 'hex') FROM audit_event
        WHERE subject = 'request:' || r.id AND event = 'request.decided') AS recorded_digest,
       v.editor_team_id, v.editor_user_id, v.changes,
       (SELECT coalesce(max(attempt), 0) FROM execution WHERE call_id = c.id) AS attempts,
       (SELECT s.verdict = 'retry' FROM execution AS e LEFT JOIN settlement AS s ON s.execution_id = e.id
        WHERE e.call_id = c.id ORDER BY e.attempt DESC LIMIT 1) AS wanted_again
FROM tool_call AS c JOIN agent_run AS a ON a.id = c.run_id
LEFT JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
LEFT JOIN decision AS d ON d.request_id = r.id
LEFT JOIN request_revision AS v ON v.request_id = r.id AND v.n = d.revision
WHERE c.id = :call
""")
_HEAD_OF_CALL = text("""
SELECT subject, seq, hash, clock_timestamp() AS at FROM audit_head
WHERE subject = (SELECT coalesce('request:' || r.id, 'run:' || c.run_id)
                 FROM tool_call AS c LEFT JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
                 WHERE c.id = :call AND c.state = 'ready')
FOR NO KEY UPDATE
""")
_ASKED_ACTION = text("""
SELECT v.action FROM tool_call AS c
JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
WHERE c.id = :call AND c.state = 'asked'
""")

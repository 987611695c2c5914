"""Writes about tool calls. The caller has locked the call or its run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction, fetch
from agent.database.wakeups import Wakeup
from agent.domain.run import CallAnswer, ProposedCall
from agent.store.ids import new_id
from agent.store.outbox import Destination
from agent.store.requests import NewRequest
from agent.store.runs import LockedRun
from signoff.values import Action


@dataclass(frozen=True, slots=True)
class StoppedRequest:
    id: UUID
    destination: Destination


def propose(tx: Transaction, run: LockedRun, turn: int, proposed: tuple[ProposedCall, ...]) -> None:
    ids = [new_id() for _ in proposed]
    rows = [
        {
            "id": ids[index],
            "run_id": run.id,
            "agent": run.agent,
            "turn": turn,
            "index": index,
            "model_call_id": call.model_call_id,
            "tool": call.tool,
            "raw_arguments": call.raw_arguments,
            "place": call.place,
        }
        for index, call in enumerate(proposed)
    ]
    tx.add_rows(_PROPOSE, rows)
    tx.wake(*(Wakeup.call(each, run.agent) for each in ids))


def mark_asked(tx: Transaction, new: NewRequest, *, blocking: bool) -> None:
    """Without an ``on_pending`` hook the call counts as announced."""
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
    tx.add(_LET_RUN, call=call_id, version=action.tool_version, action=action.canonical, digest=action.digest)


def sleep_until_ready(tx: Transaction, call_id: UUID, action: Action, seconds: float) -> None:
    mark_ready(tx, call_id, action)
    tx.add(_SLEEP, call=call_id, seconds=seconds)


def judge_again(tx: Transaction, call_id: UUID, agent: str) -> None:
    tx.add(_JUDGE_AGAIN, call=call_id)
    tx.wake(Wakeup.call(call_id, agent))


def refuse(tx: Transaction, call_id: UUID, agent: str, answer: CallAnswer) -> None:
    tx.add(_REFUSE, call=call_id, kind=answer.kind.value, answer=answer.text)
    tx.wake(Wakeup.call(call_id, agent))


def mark_prepared(tx: Transaction, call_id: UUID, action: bytes) -> None:
    tx.add(_HOLD, call=call_id, action=action)


async def stop_all(tx: Transaction, runs: Sequence[UUID], reason: str) -> list[StoppedRequest]:
    """Refuse unbegun calls of ended runs. Returns their approved requests."""
    found = await fetch(tx, _STOP_ALL, runs=list(runs), reason=reason)
    return [StoppedRequest(row.id, Destination(row.team_id, row.channel_id)) for row in found]


def answer(tx: Transaction, call_id: UUID, given: CallAnswer) -> None:
    tx.add_rows(_ANSWER, [{"id": call_id, "kind": given.kind.value, "answer": given.text}])


def stop(tx: Transaction, call_id: UUID, agent: str, reason: str = "the run has ended; nothing ran") -> None:
    tx.add(_STOP, call=call_id, reason=reason)
    tx.wake(Wakeup.call(call_id, agent))


def mark_announced(tx: Transaction, call_id: UUID) -> None:
    tx.add(_ANNOUNCE, call=call_id)


def clear_prepared(tx: Transaction, call_id: UUID, action: bytes) -> None:
    tx.add(_CLEAR_PREPARED, call=call_id, action=action)


def supersede_action(tx: Transaction, call_id: UUID, agent: str) -> None:
    tx.add(_ADVANCE, call=call_id)
    tx.wake(Wakeup.call(call_id, agent))


def delegate(tx: Transaction, call_id: UUID, *, blocking: bool) -> None:
    """The claimed attempt becomes a child run; the run waits if ``blocking``."""
    tx.add(_DELEGATE, call=call_id, blocking=blocking)


def mark_in_doubt(tx: Transaction, call_id: UUID) -> None:
    tx.add(_DOUBT, call=call_id)


def make_ready_again(tx: Transaction, call_id: UUID, agent: str, seconds: float | None = None) -> None:
    """A person wants another attempt, or the tool is idempotent."""
    tx.add(_READY_AGAIN, call=call_id, seconds=seconds)
    if seconds is None:
        tx.wake(Wakeup.call(call_id, agent))


async def repeat(connection: Connection, call_id: UUID) -> tuple[UUID, bool]:
    """Copy the call into its run's background, once. True: new."""
    fresh = new_id()
    await connection.execute(_REPEAT, {"id": fresh, "call": call_id})
    found: UUID = (await connection.execute(_REPEATED, {"call": call_id})).scalar_one()
    return found, found == fresh


_PROPOSE = text("""
INSERT INTO tool_call (id, run_id, agent, turn, index, model_call_id, tool, raw_arguments, place, blocking)
SELECT e.*, true FROM json_to_recordset(:rows) AS e (
    id uuid, run_id uuid, agent text, turn int, index int, model_call_id text, tool text, raw_arguments text,
    place text)
""")
_ASK = text("""
UPDATE tool_call SET state = 'asked', tool_version = :version, action = :action, digest = :digest,
       blocking = :blocking, ask_no = ask_no + 1, lease_until = NULL, claim_until = NULL,
       announced_at = CASE WHEN :announced THEN clock_timestamp() END
WHERE id = :call
""")
_LET_RUN = text("""
UPDATE tool_call SET state = 'ready', tool_version = :version, action = :action, digest = :digest
WHERE id = :call AND state = 'new'
""")
_SLEEP = text("""
UPDATE tool_call SET retry_at = clock_timestamp() + make_interval(secs => CAST(:seconds AS float)) WHERE id = :call
""")
_JUDGE_AGAIN = text("""
UPDATE tool_call SET state = 'new', claim_until = NULL WHERE id = :call AND state = 'ready'
""")
_REFUSE = text("""
UPDATE tool_call SET state = 'refused', answer_kind = :kind, answer = :answer
WHERE id = :call AND state = 'new'
""")
_STOP_ALL = text("""
WITH stopped AS (
    UPDATE tool_call SET state = 'refused', answer_kind = 'withdrawn', answer = :reason
    WHERE run_id = ANY(:runs) AND state IN ('new', 'ready') RETURNING id, ask_no
)
SELECT r.id, r.team_id, r.channel_id FROM stopped
JOIN approval_request AS r ON r.call_id = stopped.id AND r.ask_no = stopped.ask_no
WHERE r.status = 'approved' ORDER BY r.id
""")
_STOP = text("""
UPDATE tool_call SET state = 'refused', answer_kind = 'withdrawn', answer = :reason
WHERE id = :call AND state = 'ready'
""")
_ANSWER = text("""
UPDATE tool_call AS c SET state = 'answered', answer_kind = e.kind, answer = e.answer, lease_until = NULL,
                          answered_at = clock_timestamp()
FROM (SELECT * FROM json_to_recordset(:rows) AS t (id uuid, kind answer_kind, answer text)
      LIMIT (SELECT CAST(:many AS int))) AS e
WHERE c.id = e.id AND c.state <> 'answered'
""")
_ANNOUNCE = text(
    "UPDATE tool_call SET announced_at = clock_timestamp() WHERE id = :call AND announced_at IS NULL"
)
_HOLD = text("UPDATE tool_call SET held = :action WHERE id = :call AND state = 'asked'")
_CLEAR_PREPARED = text("UPDATE tool_call SET held = NULL WHERE id = :call AND held = :action")
_ADVANCE = text("""
UPDATE tool_call SET announced_at = NULL WHERE id = :call AND state = 'asked' AND held IS NOT NULL
""")
_DELEGATE = text("""
UPDATE tool_call SET state = 'delegated', blocking = blocking AND :blocking WHERE id = :call AND state = 'claimed'
""")
_DOUBT = text("UPDATE tool_call SET state = 'in_doubt' WHERE id = :call AND state = 'claimed'")
_READY_AGAIN = text("""
UPDATE tool_call
SET state = 'ready', retry_at = clock_timestamp() + make_interval(secs => CAST(:seconds AS float)),
    claim_until = NULL
WHERE id = :call AND state IN ('in_doubt', 'claimed')
""")
_REPEAT = text("""
INSERT INTO tool_call (id, run_id, agent, turn, index, model_call_id, tool, raw_arguments, blocking, repeats)
SELECT :id, c.run_id, (SELECT agent FROM agent_run WHERE id = c.run_id), c.turn,
       (SELECT max(index) + 1 FROM tool_call WHERE run_id = c.run_id AND turn = c.turn),
       c.model_call_id, c.tool, c.raw_arguments, false, c.id
FROM tool_call AS c WHERE c.id = :call
ON CONFLICT (repeats) DO NOTHING
""")
_REPEATED = text("SELECT id FROM tool_call WHERE repeats = :call")

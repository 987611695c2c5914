"""Writes about tool calls. The caller has locked the call or its run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction, fetch
from agent.database.wakeups import Wakeup
from agent.domain.run import AnswerKind, CallAnswer, CallExecutor, ProposedCall
from agent.store.ids import new_id
from agent.store.outbox import Destination
from agent.store.requests import NewRequest
from agent.store.rows import row_as
from agent.store.runs import LockedRun
from signoff.values import Action


@dataclass(frozen=True, slots=True)
class StoppedRequest:
    """An approved request whose call was refused because its run ended; `attempted`: it had begun once."""

    id: UUID
    destination: Destination
    attempted: bool


def propose(tx: Transaction, run: LockedRun, turn: int, proposed: tuple[ProposedCall, ...]) -> None:
    """Insert the calls that the model proposes in a turn as new, blocking calls, and wake each."""
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
        executor=new.executor.value,
        executor_key=new.executor_key,
        version=new.action.tool_version,
        action=new.action.canonical,
        digest=new.action.digest,
        blocking=blocking,
        announced=not new.has_pending_hook,
    )


def mark_ready(
    tx: Transaction,
    call_id: UUID,
    action: Action,
    executor: CallExecutor = CallExecutor.HERE,
    executor_key: str | None = None,
) -> None:
    """A program has a day to claim it."""
    tx.add(
        _LET_RUN,
        call=call_id,
        executor=executor.value,
        executor_key=executor_key,
        version=action.tool_version,
        action=action.canonical,
        digest=action.digest,
    )


def sleep_until_ready(tx: Transaction, call_id: UUID, action: Action, seconds: float) -> None:
    """Make a new call ready whose first attempt is due only after this many seconds."""
    mark_ready(tx, call_id, action)
    tx.add(_SLEEP, call=call_id, seconds=seconds)


def judge_again(tx: Transaction, call_id: UUID, agent: str) -> None:
    """Make a ready call new again, so that policy and limits evaluate it anew, and wake it."""
    tx.add(_JUDGE_AGAIN, call=call_id)
    tx.wake(Wakeup.call(call_id, agent))


def refuse(tx: Transaction, call_id: UUID, agent: str, answer: CallAnswer) -> None:
    """Refuse a new call with the answer that its run will get, and wake it."""
    tx.add(_REFUSE, call=call_id, kind=answer.kind.value, answer=answer.text)
    tx.wake(Wakeup.call(call_id, agent))


def mark_prepared(tx: Transaction, call_id: UUID, action: bytes) -> None:
    """Note the pending action that `on_pending` is about to prepare, while the call waits for people."""
    tx.add(_HOLD, call=call_id, action=action)


async def stop_all(tx: Transaction, runs: Sequence[UUID], reason: str) -> list[StoppedRequest]:
    """Refuse unbegun calls of ended runs. Returns their approved requests."""
    found = await fetch(tx, _STOP_ALL, runs=list(runs), reason=reason)
    return [row_as(StoppedRequest, row) for row in found]


def answer(tx: Transaction, call_id: UUID, given: CallAnswer) -> None:
    """Answer a call and end its lease, once; the answer's text is stored only for a run's call."""
    tx.add_rows(_ANSWER, [{"id": call_id, "kind": given.kind.value, "answer": given.text}])


def stop(
    tx: Transaction,
    call_id: UUID,
    agent: str,
    reason: str = "the run has ended",
    kind: AnswerKind = AnswerKind.WITHDRAWN,
) -> None:
    """A ready call of a run does not begin."""
    tx.add(_STOP, call=call_id, kind=kind.value, reason=reason)
    tx.wake(Wakeup.call(call_id, agent))


def mark_announced(tx: Transaction, call_id: UUID) -> None:
    """Note that `on_pending` has run for the pending action; the first time stays."""
    tx.add(_ANNOUNCE, call=call_id)


def clear_prepared(tx: Transaction, call_id: UUID, action: bytes) -> None:
    """Forget what was prepared for this action; if another action is noted by now, that one stays."""
    tx.add(_CLEAR_PREPARED, call=call_id, action=action)


def supersede_action(tx: Transaction, call_id: UUID, agent: str) -> None:
    """Let a worker undo what was prepared before an edit and run `on_pending` for the new action."""
    tx.add(_ADVANCE, call=call_id)
    tx.wake(Wakeup.call(call_id, agent))


def delegate(tx: Transaction, call_id: UUID, *, blocking: bool) -> None:
    """The claimed attempt becomes a child run; the run waits if ``blocking``."""
    tx.add(_DELEGATE, call=call_id, blocking=blocking)


@dataclass(frozen=True, slots=True)
class OverdueCall:
    """A ready call that no program has claimed in time."""

    id: UUID
    run_id: UUID | None
    agent: str
    handed_over_at: datetime | None
    attempted: bool
    request_id: UUID | None
    destination: Destination | None


async def lock_overdue(
    connection: Connection, limit: int, but: Collection[UUID] = (), only: UUID | None = None
) -> list[OverdueCall]:
    """Those that nobody else holds, except ``but``; or ``only`` this one."""
    due = {"limit": limit, "but": list(but), "only": only}
    return [row_as(OverdueCall, row) for row in await connection.execute(_OVERDUE, due)]


def lapse(tx: Transaction, ended: Mapping[UUID, CallAnswer], at: datetime | None) -> None:
    """Nobody may begin these ready calls any more; a run gets the answer. ``at``: of the events, if there are any."""
    rows = [
        {"id": each, "kind": answer.kind.value, "answer": answer.text, "at": at}
        for each, answer in ended.items()
    ]
    tx.add_rows(_LAPSE, rows)


async def hand_over(tx: Transaction, request_ids: Collection[UUID]) -> dict[UUID, datetime]:
    """The programs that asked read that they may claim these. Returns the first read times."""
    rows = await tx.execute(_HAND_OVER, {"ids": list(request_ids)})
    return {row.id: row.handed_over_at for row in rows}


def mark_in_doubt(tx: Transaction, call_id: UUID) -> None:
    """Note that nobody knows whether the call's claimed attempt took effect; a person has to settle it."""
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
INSERT INTO tool_call (id, run_id, agent, turn, index, model_call_id, tool, raw_arguments, place, blocking, executor)
SELECT e.*, true, 'here' FROM json_to_recordset(:rows) AS e (
    id uuid, run_id uuid, agent text, turn int, index int, model_call_id text, tool text, raw_arguments text,
    place text)
""")
_ASK = text("""
UPDATE tool_call SET state = 'asked', executor = :executor, executor_key = CAST(:executor_key AS text),
       tool_version = CASE WHEN run_id IS NOT NULL THEN :version END,
       action = CASE WHEN run_id IS NOT NULL THEN CAST(:action AS bytea) END,
       digest = CASE WHEN run_id IS NOT NULL THEN CAST(:digest AS bytea) END,
       blocking = :blocking, ask_no = ask_no + 1, lease_until = NULL, lapse_at = NULL, handed_over_at = NULL,
       announced_at = CASE WHEN :announced THEN clock_timestamp() END
WHERE id = :call
""")
_LET_RUN = text("""
UPDATE tool_call SET state = 'ready', tool_version = :version, action = :action, digest = :digest,
       executor = CAST(:executor AS call_executor), executor_key = CAST(:executor_key AS text),
       lapse_at = CASE WHEN CAST(:executor AS call_executor) = 'program'
                       THEN clock_timestamp() + time_to_claim(id, ask_no) END
WHERE id = :call AND state = 'new'
""")
_SLEEP = text("""
UPDATE tool_call SET retry_at = clock_timestamp() + make_interval(secs => CAST(:seconds AS float)) WHERE id = :call
""")
_JUDGE_AGAIN = text("""
UPDATE tool_call SET state = 'new', lapse_at = NULL WHERE id = :call AND state = 'ready'
""")
_REFUSE = text("""
UPDATE tool_call SET state = 'refused', answer_kind = :kind, answer = :answer
WHERE id = :call AND state = 'new'
""")
_STOP_ALL = text("""
WITH stopped AS (
    UPDATE tool_call SET state = 'refused', answer_kind = 'withdrawn', answer = :reason, lapse_at = NULL
    WHERE run_id = ANY(:runs) AND state IN ('new', 'ready') RETURNING id, ask_no
)
SELECT r.id, r.team_id, r.channel_id, EXISTS (SELECT FROM execution WHERE call_id = stopped.id) AS attempted
FROM stopped
JOIN approval_request AS r ON r.call_id = stopped.id AND r.ask_no = stopped.ask_no
WHERE r.status = 'approved' ORDER BY r.id
""")
_STOP = text("""
UPDATE tool_call SET state = 'refused', answer_kind = :kind, answer = :reason, lapse_at = NULL
WHERE id = :call AND state = 'ready'
""")
_ANSWER = text("""
UPDATE tool_call AS c SET state = 'answered', answer_kind = e.kind, lease_until = NULL,
                          answer = CASE WHEN c.run_id IS NOT NULL THEN e.answer END,
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
    handed_over_at = NULL,
    lapse_at = CASE WHEN executor = 'program' THEN clock_timestamp() + time_to_claim(id, ask_no) END
WHERE id = :call AND state IN ('in_doubt', 'claimed')
""")
_OVERDUE = text("""
SELECT c.id, c.run_id, c.agent, c.handed_over_at,
       EXISTS (SELECT FROM execution WHERE call_id = c.id) AS attempted, r.id AS request_id, r.team_id, r.channel_id
FROM tool_call AS c LEFT JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
WHERE c.executor = 'program' AND c.state = 'ready' AND c.lapse_at <= (SELECT clock_timestamp())
  AND c.id <> ALL(CAST(:but AS uuid[])) AND (CAST(:only AS uuid) IS NULL OR c.id = :only)
ORDER BY c.lapse_at LIMIT :limit FOR NO KEY UPDATE OF c SKIP LOCKED
""")
_LAPSE = text("""
UPDATE tool_call AS c SET answer_kind = e.kind, lapse_at = NULL, lapsed_at = coalesce(e.at, clock_timestamp()),
       state = CASE WHEN c.run_id IS NULL THEN CAST('answered' AS call_state) ELSE 'refused' END,
       answer = CASE WHEN c.run_id IS NOT NULL THEN e.answer END,
       answered_at = CASE WHEN c.run_id IS NULL THEN coalesce(e.at, clock_timestamp()) END
FROM (SELECT * FROM json_to_recordset(:rows) AS t (id uuid, kind answer_kind, answer text, at timestamptz)
      LIMIT (SELECT CAST(:many AS int))) AS e
WHERE c.id = e.id AND c.state = 'ready'
""")
_HAND_OVER = text("""
UPDATE tool_call AS c SET handed_over_at = coalesce(c.handed_over_at, clock_timestamp())
FROM (SELECT c.id, r.id AS request_id FROM approval_request AS r
      JOIN tool_call AS c ON c.id = r.call_id AND c.ask_no = r.ask_no
      WHERE r.id = ANY(CAST(:ids AS uuid[])) AND c.run_id IS NULL AND c.lapse_at IS NOT NULL
      ORDER BY c.id FOR NO KEY UPDATE OF c) AS claimable
WHERE c.id = claimable.id RETURNING claimable.request_id AS id, c.handed_over_at
""")
_REPEAT = text("""
INSERT INTO tool_call (id, run_id, agent, turn, index, model_call_id, tool, raw_arguments, blocking, repeats, executor)
SELECT :id, c.run_id, (SELECT agent FROM agent_run WHERE id = c.run_id), c.turn,
       (SELECT max(index) + 1 FROM tool_call WHERE run_id = c.run_id AND turn = c.turn),
       c.model_call_id, c.tool, c.raw_arguments, false, c.id, 'here'
FROM tool_call AS c WHERE c.id = :call
ON CONFLICT (repeats) DO NOTHING
""")
_REPEATED = text("SELECT id FROM tool_call WHERE repeats = :call")

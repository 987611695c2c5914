"""Writes about runs. The caller locks the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.transaction import Connection, Transaction, query
from agent.database.wakeups import Wakeup
from agent.domain.ancestors import label_of
from agent.domain.run import NewRun, RunStatus
from agent.store.outbox import Destination
from agent.store.rows import columns, person_columns, row_as
from signoff.values import Person


@dataclass(frozen=True, slots=True)
class LockedRun:
    """A run as it is under its lock; `heard` of its `inputs` have reached the model."""

    id: UUID
    status: RunStatus
    agent: str
    parent_run_id: UUID | None
    parent_call_id: UUID | None
    ancestor_ids: tuple[UUID, ...]  # root first
    destination: Destination | None
    principal: str
    requester: Person | None
    awaiting_calls: int
    branches: bool
    inputs: int
    heard: int
    turn: int
    lease_epoch: int
    leased: bool
    last_seq: int

    @property
    def over(self) -> bool:
        """Whether only a person's new message wakes it."""
        return self.status.over

    @property
    def done(self) -> bool:
        """A background call may still wait."""
        return self.status is RunStatus.COMPLETED


async def lock(connection: Connection, run_id: UUID) -> LockedRun | None:
    """Lock a run until COMMIT and read it after the lock; None if there is none."""
    _, found = await query(connection, _TAKE_RUN, READ, id=run_id, runs=[run_id])
    return locked(found[0]) if found else None


def locked(row: Row[Any]) -> LockedRun:
    """Read a row of ``READ``, after its lock."""
    return row_as(LockedRun, row)


async def insert(connection: Connection, run_id: UUID, new: NewRun) -> bool:
    """The run has one input. False: its start key is taken."""
    row = columns(new, id=run_id, label=label_of(new.label))
    result = await connection.execute(_INSERT_RUN, row)
    return result.rowcount == 1


async def run_by_start_key(connection: Connection, start_key: str | None) -> UUID:
    """Return the run that was started with this key; it has to exist."""
    found: UUID = (await connection.execute(_RUN_OF_KEY, {"key": start_key})).scalar_one()
    return found


def add_first_message(
    tx: Transaction, run_id: UUID, task: str, author: Person | None, *, seq: int = 1
) -> None:
    """Add a message that a run begins with, by the person who wrote it; the task is number 1."""
    row = {"run_id": run_id, "seq": seq, "turn": 0, "role": "user", "text": task}
    tx.add_rows(_INSERT_MESSAGES, [row | person_columns("author", author)])


def set_status(tx: Transaction, run_id: UUID, progress: str | None, label: str | None) -> None:
    """None: unchanged."""
    tx.add(_PUBLISH, run=run_id, progress=progress, label=label_of(label))


async def has_message(connection: Connection, source_key: str) -> bool:
    """Whether a message from this source is stored already, as for an event that Slack repeats."""
    return (await connection.execute(_MESSAGE_EXISTS, {"key": source_key})).one_or_none() is not None


def reopen(tx: Transaction, run_id: UUID, agent: str) -> None:
    """Continue with the new input, unless cancelled."""
    tx.add(_REOPEN, run=run_id)
    add_input(tx, run_id, agent)


def end(tx: Transaction, run_id: UUID, status: RunStatus, cause: str) -> None:
    """Voids its lease and unread inputs."""
    tx.add(_END_RUN, run=run_id, status=status.value, cause=cause)


def reset_limits(tx: Transaction, run_id: UUID) -> None:
    """Reset the limits, and forget the model's failures."""
    tx.add(_RESTART, run=run_id)


def add_message(
    tx: Transaction,
    run: LockedRun,
    role: str,
    words: str | None,
    *,
    author: Person | None = None,
    source_key: str | None = None,
    offset: int = 1,
    turn: int | None = None,
) -> None:
    """``offset`` counts messages of the same transaction."""
    row = {
        "run_id": run.id,
        "seq": run.last_seq + offset,
        "turn": run.turn if turn is None else turn,
        "role": role,
        "text": words,
        "source_key": source_key,
    }
    tx.add_rows(_INSERT_MESSAGES, [row | person_columns("author", author)])


async def destination(connection: Connection, run_id: UUID) -> Destination | None:
    """Return the channel of a run's thread, or None if the run has none or does not exist."""
    row = (await connection.execute(_DESTINATION, {"id": run_id})).one_or_none()
    return Destination(row.team_id, row.channel_id) if row else None


def add_input(tx: Transaction, run_id: UUID, agent: str) -> None:
    """Wakes the run unless it has ended."""
    tx.add(_ADD_INPUT, run=run_id)
    tx.wake(Wakeup.run(run_id, agent))


def park(tx: Transaction, run_id: UUID) -> None:
    """A blocking call waits for people."""
    tx.add(_PARK, run=run_id)


def work_again(tx: Transaction, run_id: UUID) -> None:
    """Resume work, unless people are asked about another blocking call."""
    tx.add_rows(_WORK_AGAIN, [{"id": run_id}])


def count_answer(tx: Transaction, run_id: UUID, agent: str, *, last: bool) -> None:
    """The call was blocking. ``last``: the model now reads its answers."""
    tx.add_rows(_DECREMENT_AWAITED, [{"id": run_id, "inputs": int(last)}])
    if last:
        tx.wake(Wakeup.run(run_id, agent))


def release_call(tx: Transaction, run_id: UUID, agent: str, *, last: bool) -> None:
    """The call moves to the background. ``last``: the run waited for no other."""
    tx.add(_RELEASE, run=run_id)
    if last:
        add_input(tx, run_id, agent)


_WORK_AGAIN = text("""
UPDATE agent_run AS a SET status = 'working', updated_at = clock_timestamp()
FROM (SELECT * FROM json_to_recordset(:rows) AS t (id uuid) LIMIT (SELECT CAST(:many AS int))) AS e
WHERE a.id = e.id AND a.status = 'pending_approval'
  AND NOT EXISTS (SELECT 1 FROM tool_call AS c WHERE c.run_id = a.id AND c.state = 'asked' AND c.blocking)
""")
# PostgreSQL keeps a plan for an array only if it cannot know its length, hence ARRAY(…).
READ = text("""
SELECT id, status::text AS status, agent, parent_run_id, parent_call_id, ancestor_ids, team_id, channel_id,
       principal, requester_team_id, requester_user_id, awaiting_calls, branches, inputs, heard, turn,
       lease_epoch, lease_until IS NOT NULL AS leased, clock_timestamp() AS at,
       (SELECT coalesce(max(seq), 0) FROM run_message WHERE run_id = agent_run.id) AS last_seq
FROM agent_run WHERE id = ANY (ARRAY(SELECT unnest(CAST(:runs AS uuid[]))))
""")
TAKE = text("""
SELECT id FROM agent_run WHERE id = ANY (ARRAY(SELECT unnest(CAST(:runs AS uuid[]))))
ORDER BY id FOR NO KEY UPDATE
""")
TRY = text("""
SELECT id FROM agent_run WHERE id = ANY (ARRAY(SELECT unnest(CAST(:runs AS uuid[]))))
ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
""")
# Sub-selects are evaluated before a row lock is awaited, so the lock comes first, alone.
_TAKE_RUN = text("SELECT 1 FROM agent_run WHERE id = :id FOR NO KEY UPDATE")
_INSERT_RUN = text("""
INSERT INTO agent_run (id, parent_run_id, parent_call_id, agent, agent_version, task, principal, start_key, session_id,
                       program_user, requester_team_id, requester_user_id, requester_asserted, team_id, channel_id,
                       thread_ts, label, inputs, api_key_id, ancestor_ids, ancestor_agents)
VALUES (:id, :parent_run_id, :parent_call_id, :agent, :agent_version, :task, :principal, :start_key, :session_id,
        :program_user, :requester_team_id, :requester_user_id, :requester_asserted, :team_id, :channel_id,
        :thread_ts, :label, 1, :api_key_id,
        coalesce((SELECT ancestor_ids || id FROM agent_run WHERE id = :parent_run_id), '{}'),
        coalesce((SELECT ancestor_agents || agent FROM agent_run WHERE id = :parent_run_id), '{}'))
ON CONFLICT (start_key) DO NOTHING
""")
_RUN_OF_KEY = text("SELECT id FROM agent_run WHERE start_key = :key")
_PUBLISH = text("""
UPDATE agent_run SET progress = coalesce(:progress, progress), label = coalesce(:label, label),
                     updated_at = clock_timestamp()
WHERE id = :run
""")
_MESSAGE_EXISTS = text("SELECT 1 FROM run_message WHERE source_key = :key")
_INSERT_MESSAGES = text("""
INSERT INTO run_message (run_id, seq, turn, role, text, author_team_id, author_user_id, source_key)
SELECT * FROM json_to_recordset(:rows) AS t (
    run_id uuid, seq int, turn int, role message_role, text text, author_team_id text, author_user_id text,
    source_key text)
""")
_ADD_INPUT = text("""
UPDATE agent_run SET inputs = inputs + 1, updated_at = clock_timestamp(),
       status = CASE WHEN status = 'completed' THEN 'working'::run_status ELSE status END
WHERE id = :run
""")
_PARK = text("""
UPDATE agent_run SET status = 'pending_approval', updated_at = clock_timestamp()
WHERE id = :run AND status = 'working'
""")
_RELEASE = text("UPDATE agent_run SET awaiting_calls = awaiting_calls - 1 WHERE id = :run")
_REOPEN = text("""
UPDATE agent_run SET status = 'working', cause = NULL
WHERE id = :run AND status IN ('completed', 'denied', 'failed')
""")
_RESTART = text("""
UPDATE agent_run SET tokens_before = tokens, model_failures = 0, look_at = NULL WHERE id = :run
""")
_DECREMENT_AWAITED = text("""
UPDATE agent_run AS a SET awaiting_calls = awaiting_calls - 1, inputs = a.inputs + e.inputs,
       updated_at = clock_timestamp(),
       status = CASE WHEN a.status = 'completed' AND e.inputs > 0
                       OR a.status = 'pending_approval' AND NOT EXISTS (
                          SELECT 1 FROM tool_call AS c WHERE c.run_id = a.id AND c.state = 'asked' AND c.blocking)
                     THEN 'working'::run_status ELSE a.status END
FROM (SELECT * FROM json_to_recordset(:rows) AS t (id uuid, inputs int) LIMIT (SELECT CAST(:many AS int))) AS e
WHERE a.id = e.id
""")
_END_RUN = text("""
UPDATE agent_run SET status = :status, cause = :cause, updated_at = clock_timestamp(),
                     lease_epoch = lease_epoch + 1, lease_until = NULL, lease_worker = NULL, heard = inputs
WHERE id = :run
""")
_DESTINATION = text("SELECT team_id, channel_id FROM agent_run WHERE id = :id AND channel_id IS NOT NULL")

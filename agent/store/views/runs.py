"""Runs, their messages and their calls as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.transaction import Connection, query
from agent.domain.changes import between
from agent.domain.run import (
    AnswerKind,
    CallAnswer,
    CallState,
    CallView,
    Message,
    RunStatus,
    RunValues,
    RunView,
)
from agent.store.views.descendants import descendants_query, waiting_descendants_column
from agent.store.views.id_prefixes import BETWEEN, ids_with_prefix
from agent.store.views.requests import person
from signoff.values import Person


@dataclass(frozen=True, slots=True)
class OpenCallDetails:
    """A call with what is needed to judge or to execute it.

    ``facts`` are those that people were shown (RFC 8785 bytes), ``policy`` the snapshot they decided under.
    """

    call: CallView
    run: RunView
    requester_asserted: str
    team_id: str | None
    words: str | None  # what the model said in the same turn: its rationale
    tool_version: str | None
    announced: bool
    held: bytes | None  # the action that its tool's on_pending hook has run for and that was not taken back
    decided: bool
    digest_decided: bytes | None
    action_decided: bytes | None
    facts: bytes | None
    policy: dict[str, Any] | None
    asked_version: str | None  # of its agent, when people were asked
    attempts: int


async def run_view(connection: Connection, run_id: UUID) -> RunView | None:
    """One run, or ``None``."""
    row = (await connection.execute(_RUN, {"id": run_id})).one_or_none()
    return run_of(row) if row is not None else None


async def root_of_run(connection: Connection, run_id: UUID) -> UUID:
    """The run at the top of those that handed this one down; itself, if nobody did."""
    return UUID(str((await connection.execute(_ROOT, {"id": run_id})).scalar() or run_id))


async def recent_runs(
    connection: Connection, *, team_id: str | None = None, limit: int = 20
) -> list[RunView]:
    """The latest runs, newest first; of one team, if given."""
    rows = (await connection.execute(_RECENT, {"team": team_id, "limit": limit})).all()
    return [run_of(row) for row in rows]


async def running(connection: Connection, team_id: str, limit: int = 20) -> list[RunView]:
    """Runs of a team that are at work or wait for people, newest first."""
    rows = (await connection.execute(_RUNNING, {"team": team_id, "limit": limit})).all()
    return [run_of(row) for row in rows]


@dataclass(frozen=True, slots=True)
class CancelContext:
    """What must be known before somebody's wish to cancel a run can be judged.

    ``audiences``: who may decide what the run, or one below it, waits for, each with the review channel; none when
    it waits for nothing.
    """

    run_id: UUID
    team_id: str | None
    requester: Person | None
    audiences: tuple[tuple[tuple[str, ...], str], ...]


async def cancel_context(connection: Connection, run_id: UUID) -> CancelContext | None:
    """Who may cancel this run; ``None`` if there is no such run."""
    rows = (await connection.execute(_CANCEL_PAPER, {"id": run_id})).all()
    if not rows:
        return None
    first = rows[0]
    audiences = tuple((tuple(row.approvers), row.review_channel) for row in rows if row.approvers)
    requester = person(first.requester_team_id, first.requester_user_id)
    return CancelContext(first.id, first.team_id, requester, audiences)


async def values_of(connection: Connection, run_ids: Sequence[UUID]) -> dict[UUID, RunValues]:
    """What the calls of these runs and of those below them were about, in one query however many runs."""
    rows = (await connection.execute(_VALUES, {"ids": list(run_ids)})).all()
    return {
        row.root: RunValues(
            arguments=(*row.raw_arguments, *map(bytes, row.actions or ())),
            facts=tuple(map(bytes, row.facts or ())),
            redact=tuple(dict.fromkeys(name for names in row.redact or () for name in names or ())),
        )
        for row in rows
    }


async def runs_like(connection: Connection, *, team_id: str, id_prefix: str) -> list[UUID]:
    """Up to two runs whose id begins so, or whose short id it is; two mean ambiguous."""
    return await ids_with_prefix(connection, _LIKE, id_prefix, team=team_id)


async def run_in_thread(connection: Connection, team_id: str, channel_id: str, thread_ts: str) -> UUID | None:
    """The run whose conversation that thread is."""
    parameters = {"team": team_id, "channel": channel_id, "ts": thread_ts}
    found: UUID | None = (await connection.execute(_IN_THREAD, parameters)).scalar_one_or_none()
    return found


async def messages(connection: Connection, run_id: UUID) -> tuple[Message, ...]:
    """The transcript's rows in order."""
    rows = (await connection.execute(_MESSAGES, {"id": run_id})).all()
    return tuple(
        Message(r.seq, r.role, r.turn, r.text, person(r.author_team_id, r.author_user_id), r.created_at)
        for r in rows
    )


async def calls(connection: Connection, run_id: UUID) -> tuple[CallView, ...]:
    """The run's calls by turn and index."""
    rows = (await connection.execute(_CALLS, {"run": run_id})).all()
    return tuple(_call(row) for row in rows)


async def waiting_descendant_calls(connection: Connection, run_id: UUID) -> tuple[CallView, ...]:
    """Calls of runs below, which the run waits for, that people are asked about."""
    rows = (await connection.execute(_ASKED_BELOW, {"run": run_id})).all()
    return tuple(_call(row) for row in rows)


async def open_call_details(connection: Connection, call_id: UUID) -> OpenCallDetails | None:
    """A call as ``advance_call`` finds it."""
    found = await query(connection, _CALL, _RUN_OF_CALL, _AT_WORK, call=call_id)
    if not all(found):
        return None
    ((row,), (run,), (more,)) = found
    return OpenCallDetails(
        call=_call(row),
        run=run_of(run),
        requester_asserted=more.requester_asserted,
        team_id=more.team_id,
        words=more.words,
        tool_version=more.tool_version,
        announced=more.announced_at is not None,
        held=_bytes(more.held),
        decided=more.outcome is not None,
        digest_decided=_bytes(more.digest_decided),
        action_decided=_bytes(more.action_decided),
        facts=_bytes(more.facts),
        policy=more.policy,
        asked_version=more.asked_version,
        attempts=more.attempts,
    )


async def prepared_action(connection: Connection, call_id: UUID) -> bytes | None:
    """The action that a call's tool has prepared for, or is preparing for."""
    return _bytes((await connection.execute(_HELD, {"call": call_id})).scalar_one_or_none())


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def run_of(row: Row[Any]) -> RunView:
    return RunView(
        id=row.id,
        agent=row.agent,
        agent_version=row.agent_version,
        task=row.task,
        status=RunStatus(row.status),
        cause=row.cause,
        requester=person(row.requester_team_id, row.requester_user_id),
        parent_run_id=row.parent_run_id,
        channel_id=row.channel_id,
        thread_ts=row.thread_ts,
        turn=row.turn,
        steps=row.steps,
        tokens=row.tokens,
        awaiting_calls=row.awaiting_calls,
        created_at=row.created_at,
        updated_at=row.updated_at,
        answer=row.answer,
        waiting=row.waiting,
        progress=row.progress,
        erased_at=row.erased_at,
        principal=row.principal,
        session_id=row.session_id,
        tokens_before=row.tokens_before,
        above=tuple(row.ancestor_agents),
        ancestor_ids=tuple(row.ancestor_ids),
        waiting_below=tuple(row.waiting_below or ()),
    )


def _call(row: Row[Any]) -> CallView:
    answer = CallAnswer(AnswerKind(row.answer_kind), row.answer or "") if row.answer_kind else None
    return CallView(
        id=row.id,
        run_id=row.run_id,
        turn=row.turn,
        index=row.position,
        model_call_id=row.model_call_id,
        tool=row.tool,
        raw_arguments=row.raw_arguments,
        state=CallState(row.state),
        blocking=row.blocking,
        answer=answer,
        request_id=row.request_id,
        repeats=row.repeats,
        edited=between(row.proposed_action, row.edited_action),
        created_at=row.created_at,
        answered_at=row.answered_at,
    )


RUN_COLUMNS = f"""id, agent, agent_version, principal, session_id, task, status::text AS status, cause,
       requester_team_id, requester_user_id, parent_run_id, channel_id, thread_ts, turn, steps, tokens, tokens_before,
       awaiting_calls, created_at, updated_at, answer, progress, erased_at,
       (SELECT count(*) FROM tool_call AS w WHERE w.run_id = agent_run.id AND w.state = 'asked') AS waiting,
       {waiting_descendants_column("agent_run")}, ancestor_ids, ancestor_agents"""  # noqa: S608 - a constant
_RUN = text(f"SELECT {RUN_COLUMNS} FROM agent_run WHERE id = :id")  # noqa: S608 - a constant
_RUN_OF_CALL = text(
    f"SELECT {RUN_COLUMNS} FROM agent_run WHERE id = (SELECT run_id FROM tool_call WHERE id = :call)"  # noqa: S608
)
_ROOT = text("SELECT coalesce(ancestor_ids[1], id) FROM agent_run WHERE id = :id")
_RECENT = text(f"""
SELECT {RUN_COLUMNS} FROM agent_run WHERE CAST(:team AS text) IS NULL OR team_id = :team
ORDER BY id DESC LIMIT :limit
""")  # noqa: S608 - a constant
_RUNNING = text(f"""
SELECT {RUN_COLUMNS} FROM agent_run WHERE team_id = :team AND status IN ('working', 'pending_approval')
ORDER BY id DESC LIMIT :limit
""")  # noqa: S608 - a constant
_CANCEL_PAPER = text("""
WITH RECURSIVE family AS (
    SELECT id FROM agent_run WHERE id = :id
    UNION ALL SELECT r.id FROM agent_run AS r JOIN family AS f ON r.parent_run_id = f.id
), audience AS (
    SELECT DISTINCT r.approvers, r.channel_id FROM approval_request AS r
    WHERE r.run_id IN (SELECT id FROM family) AND r.status = 'waiting'
)
SELECT a.id, a.team_id, a.requester_team_id, a.requester_user_id, w.approvers, w.channel_id AS review_channel
FROM agent_run AS a LEFT JOIN audience AS w ON true WHERE a.id = :id ORDER BY w.channel_id, w.approvers
""")
_VALUES = text("""
WITH RECURSIVE family AS (
    SELECT id AS root, id FROM agent_run WHERE id = ANY(CAST(:ids AS uuid[]))
    UNION ALL SELECT f.root, r.id FROM agent_run AS r JOIN family AS f ON r.parent_run_id = f.id
)
SELECT f.root, array_agg(DISTINCT c.raw_arguments) AS raw_arguments,
       array_agg(DISTINCT v.action) FILTER (WHERE v.action IS NOT NULL) AS actions,
       array_agg(DISTINCT v.facts) FILTER (WHERE v.facts IS NOT NULL) AS facts,
       json_agg(DISTINCT r.policy -> 'redact') FILTER (WHERE r.id IS NOT NULL) AS redact
FROM family AS f JOIN tool_call AS c ON c.run_id = f.id
LEFT JOIN approval_request AS r ON r.call_id = c.id
LEFT JOIN request_revision AS v ON v.request_id = r.id
GROUP BY f.root
""")
_LIKE = text(f"SELECT id FROM agent_run WHERE team_id = :team AND {BETWEEN}")  # noqa: S608 - a constant
_IN_THREAD = text("""
SELECT id FROM agent_run WHERE team_id = :team AND channel_id = :channel AND thread_ts = :ts
""")
_MESSAGES = text("""
SELECT seq, role::text AS role, turn, text, author_team_id, author_user_id, created_at
FROM run_message WHERE run_id = :id ORDER BY seq
""")
_CALL_COLUMNS = """
SELECT c.id, c.run_id, c.turn, c.index AS position, c.model_call_id, c.tool, c.raw_arguments,
       c.state::text AS state, c.blocking, c.answer_kind::text AS answer_kind, c.answer, c.repeats, r.id AS request_id,
       c.created_at, c.answered_at, v.action AS edited_action,
       CASE WHEN v.action IS NOT NULL THEN (
           SELECT b.action FROM approval_request AS o JOIN request_revision AS b ON b.request_id = o.id AND b.n = 1
           WHERE o.call_id = c.id AND o.ask_no = 1) END AS proposed_action
FROM tool_call AS c
LEFT JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
LEFT JOIN request_revision AS v
       ON v.request_id = r.id AND v.n = r.revision AND r.status = 'approved' AND v.editor_user_id IS NOT NULL
"""
_CALLS = text(f"{_CALL_COLUMNS} WHERE c.run_id = :run ORDER BY c.turn, c.index")
_ASKED_BELOW = text(f"""
{_CALL_COLUMNS} WHERE c.state = 'asked' AND c.run_id IN (
    SELECT b.id FROM agent_run CROSS JOIN LATERAL ({descendants_query("agent_run")}) AS b WHERE agent_run.id = :run)
ORDER BY c.id
""")  # noqa: S608 - constants
_CALL = text(f"{_CALL_COLUMNS} WHERE c.id = :call")
_HELD = text("SELECT held FROM tool_call WHERE id = :call")
_AT_WORK = text("""
SELECT a.requester_asserted, a.team_id, m.text AS words, c.tool_version, c.announced_at, c.held,
       d.outcome::text AS outcome, d.digest AS digest_decided, v.action AS action_decided, v.facts, r.policy,
       r.agent_version AS asked_version,
       (SELECT count(*) FROM execution WHERE call_id = c.id) AS attempts
FROM tool_call AS c JOIN agent_run AS a ON a.id = c.run_id
LEFT JOIN run_message AS m ON m.run_id = c.run_id AND m.turn = c.turn AND m.role = 'assistant'
LEFT JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
LEFT JOIN decision AS d ON d.request_id = r.id
LEFT JOIN request_revision AS v ON v.request_id = r.id AND v.n = coalesce(d.revision, r.revision)
WHERE c.id = :call
""")

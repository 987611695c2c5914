"""Runs, their messages and their calls as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, and_, bindparam, case, func, select, text

from agent.database.transaction import Connection, query
from agent.domain.changes import between
from agent.domain.request import RequestStatus
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
from agent.store.tables import agent_run, approval_request, request_revision, tool_call
from agent.store.views.descendants import descendants, waiting_descendants
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
    digest_recorded: bytes | None  # of the decision, by the audit log
    signature_decided: bytes | None  # of the tool's parameters, when people were asked; None: not compared
    action_decided: bytes | None
    facts: bytes | None
    policy: dict[str, Any] | None
    asked_version: str | None  # of its agent, when people were asked
    attempts: int


async def run_view(connection: Connection, run_id: UUID) -> RunView | None:
    """One run, or ``None``."""
    (rows,) = await query(connection, _RUN, id=run_id)
    return run_of(rows[0]) if rows else None


async def root_of_run(connection: Connection, run_id: UUID) -> UUID:
    """The run at the top of those that handed this one down; itself, if nobody did."""
    return UUID(str((await connection.execute(_ROOT, {"id": run_id})).scalar() or run_id))


async def recent_runs(
    connection: Connection, *, team_id: str | None = None, limit: int = 20
) -> list[RunView]:
    """The latest runs, newest first; of one team, if given."""
    (rows,) = await query(connection, _OF_ALL if team_id is None else _OF_TEAM, team=team_id, limit=limit)
    return [run_of(row) for row in rows]


async def running(connection: Connection, team_id: str, limit: int = 20) -> list[RunView]:
    """Runs of a team that are at work or wait for people, newest first."""
    (rows,) = await query(connection, _RUNNING, team=team_id, limit=limit)
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
    (rows,) = await query(connection, _CALLS, run=run_id)
    return tuple(_call(row) for row in rows)


async def waiting_descendant_calls(connection: Connection, run_id: UUID) -> tuple[CallView, ...]:
    """Calls of runs below, which the run waits for, that people are asked about."""
    (rows,) = await query(connection, _ASKED_BELOW, run=run_id)
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
        digest_recorded=_bytes(more.digest_recorded),
        signature_decided=_bytes(more.signature_digest),
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


_asked = tool_call.alias("asked")
RUN_VIEW = select(
    agent_run,
    select(func.count())
    .where(_asked.c.run_id == agent_run.c.id, _asked.c.state == CallState.ASKED)
    .scalar_subquery()
    .label("waiting"),
    waiting_descendants(agent_run.c.id).label("waiting_below"),
)
"""Runs with what `run_of` reads."""

_RUN = RUN_VIEW.where(agent_run.c.id == bindparam("id"))
_RUN_OF_CALL = RUN_VIEW.where(
    agent_run.c.id == select(tool_call.c.run_id).where(tool_call.c.id == bindparam("call")).scalar_subquery()
)
_OF_ALL = RUN_VIEW.order_by(agent_run.c.id.desc()).limit(bindparam("limit"))
_OF_TEAM = _OF_ALL.where(agent_run.c.team_id == bindparam("team"))
_RUNNING = _OF_TEAM.where(agent_run.c.status.in_([RunStatus.WORKING, RunStatus.PENDING_APPROVAL]))
_ROOT = text("SELECT coalesce(ancestor_ids[1], id) FROM agent_run WHERE id = :id")
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
_IN_THREAD = text("""
SELECT id FROM agent_run WHERE team_id = :team AND channel_id = :channel AND thread_ts = :ts
""")
_MESSAGES = text("""
SELECT seq, role::text AS role, turn, text, author_team_id, author_user_id, created_at
FROM run_message WHERE run_id = :id ORDER BY seq
""")
_request, _first_request = approval_request.alias("request"), approval_request.alias("first_request")
_edit, _proposal = request_revision.alias("edit"), request_revision.alias("proposal")
_proposed_action = (
    select(_proposal.c.action)
    .join(_first_request, and_(_proposal.c.request_id == _first_request.c.id, _proposal.c.n == 1))
    .where(_first_request.c.call_id == tool_call.c.id, _first_request.c.ask_no == 1)
    .scalar_subquery()
)
_CALL_VIEW = (
    select(
        *(
            tool_call.c[name]
            for name in ("id", "run_id", "turn", "model_call_id", "tool", "raw_arguments", "state")
        ),
        *(
            tool_call.c[name]
            for name in ("blocking", "answer_kind", "answer", "repeats", "created_at", "answered_at")
        ),
        tool_call.c.index.label("position"),
        _request.c.id.label("request_id"),
        _edit.c.action.label("edited_action"),
        case((_edit.c.action.is_not(None), _proposed_action)).label("proposed_action"),
    )
    .outerjoin(_request, and_(_request.c.call_id == tool_call.c.id, _request.c.ask_no == tool_call.c.ask_no))
    .outerjoin(
        _edit,
        and_(
            _edit.c.request_id == _request.c.id,
            _edit.c.n == _request.c.revision,
            _request.c.status == RequestStatus.APPROVED,
            _edit.c.editor_user_id.is_not(None),
        ),
    )
)
_CALLS = _CALL_VIEW.where(tool_call.c.run_id == bindparam("run")).order_by(
    tool_call.c.turn, tool_call.c.index
)
_ASKED_BELOW = _CALL_VIEW.where(
    tool_call.c.state == CallState.ASKED,
    tool_call.c.run_id.in_(select(descendants(bindparam("run")).c.id)),
).order_by(tool_call.c.id)
_CALL = _CALL_VIEW.where(tool_call.c.id == bindparam("call"))
_HELD = text("SELECT held FROM tool_call WHERE id = :call")
_AT_WORK = text("""
SELECT a.requester_asserted, a.team_id, m.text AS words, c.tool_version, c.announced_at, c.held,
       d.outcome::text AS outcome, d.digest AS digest_decided, v.action AS action_decided, v.facts, r.policy,
       v.signature_digest,
       (SELECT decode(detail ->> 'digest', 'hex') FROM audit_event
        WHERE subject = 'request:' || r.id AND event = 'request.decided') AS digest_recorded,
       r.agent_version AS asked_version,
       (SELECT count(*) FROM execution WHERE call_id = c.id) AS attempts
FROM tool_call AS c JOIN agent_run AS a ON a.id = c.run_id
LEFT JOIN run_message AS m ON m.run_id = c.run_id AND m.turn = c.turn AND m.role = 'assistant'
LEFT JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
LEFT JOIN decision AS d ON d.request_id = r.id
LEFT JOIN request_revision AS v ON v.request_id = r.id AND v.n = coalesce(d.revision, r.revision)
WHERE c.id = :call
""")

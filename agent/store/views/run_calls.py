"""The calls and transcript of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Row, Uuid, and_, bindparam, case, func, select, text

from agent.database.transaction import Connection, fetch, query
from agent.domain.changes import between
from agent.domain.coverage import StoredApproval
from agent.domain.grants import MAX_LIVE
from agent.domain.request import RequestStatus
from agent.domain.run import AnswerKind, CallAnswer, CallExecutor, CallState, CallView, Message, RunView
from agent.store import consent_terms, grants
from agent.store.grants import GrantState
from agent.store.rows import row_as
from agent.store.tables import agent_run, approval_request, request_revision, tool_call
from agent.store.views.descendants import descendants
from agent.store.views.request_rows import notes, present_revision
from agent.store.views.requests import REJECTION, Rejection
from agent.store.views.runs import MESSAGES, NAMED, RUN_VIEW, RUNS, message_of, run_of


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCallDetails(StoredApproval):
    """With its approval, if people were asked."""

    call: CallView
    run: RunView
    requester_asserted: str
    team_id: str | None
    words: str | None  # the model's text of the turn: its rationale
    tool_version: str | None
    announced: bool
    held: bytes | None  # prepared by on_pending and not undone
    decided: bool
    action_decided: bytes | None
    action_judged: bytes | None  # without the edits of reviewers
    retried_later: bool  # the next attempt is not due
    executor: CallExecutor
    executor_key: str | None
    lapsed: bool  # no program claimed it in time


@dataclass(frozen=True, slots=True)
class QuestionContext:
    """What an evaluation and its card need of a run: its transcript, a rejection, grants that may apply."""

    rejection: Rejection | None
    """Of exactly this action in this run, as proposed or as edited."""
    messages: tuple[Message, ...]
    calls: tuple[CallView, ...]
    grants: tuple[GrantState, ...]
    """Those that might cover the call, earliest end first."""


async def question_context(
    connection: Connection, run_id: UUID, digest: bytes, agent: str, tool: str, checkpoint_id: str | None
) -> QuestionContext:
    """What people asked about this action see of its run, and grants that might spare them."""
    statements = REJECTION, MESSAGES, _CALLS, grants.LIVE
    about = {"agent": agent, "tool": tool, "checkpoint": checkpoint_id, "most": MAX_LIVE}
    rejected, said, proposed, live = await query(
        connection, *statements, runs=[run_id], run=run_id, digest=digest, **about
    )
    return QuestionContext(
        rejection=Rejection(*rejected[0]) if rejected else None,
        messages=tuple(map(message_of, said)),
        calls=tuple(map(_call, proposed)),
        grants=tuple(GrantState(*row) for row in live),
    )


async def calls(connection: Connection, run_id: UUID) -> tuple[CallView, ...]:
    """Calls by turn and index."""
    rows = await fetch(connection, _CALLS, runs=[run_id])
    return tuple(_call(row) for row in rows)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A run with its messages by number and its calls by turn and index."""

    run: RunView
    messages: tuple[Message, ...]
    calls: tuple[CallView, ...]


def transcripts(
    found: Sequence[Row[Any]], said: Sequence[Row[Any]], proposed: Sequence[Row[Any]]
) -> dict[UUID, Transcript]:
    """Read the rows of ``TRANSCRIPTS``."""
    messages: defaultdict[UUID, list[Message]] = defaultdict(list)
    for row in said:
        messages[row.run_id].append(message_of(row))
    of_runs: defaultdict[UUID, list[CallView]] = defaultdict(list)
    for row in proposed:
        of_runs[row.run_id].append(_call(row))
    return {row.id: Transcript(run_of(row), tuple(messages[row.id]), tuple(of_runs[row.id])) for row in found}


async def waiting_descendant_calls(connection: Connection, run_id: UUID) -> tuple[CallView, ...]:
    """Return the calls of a run's descendants that wait for people, oldest first; not its own."""
    rows = await fetch(connection, _ASKED_BELOW, run=run_id)
    return tuple(_call(row) for row in rows)


async def open_call_details(connection: Connection, call_ids: Sequence[UUID]) -> dict[UUID, OpenCallDetails]:
    """Return, by call, what a worker needs to advance runs' calls; nothing of unknown ones and of programs'."""
    found = await query(connection, _CALLS_NAMED, _RUNS_OF_CALLS, _AT_WORK, calls=list(call_ids))
    named, runs, more = ({row.id: row for row in rows} for rows in found)
    details = {}
    for call_id, at_work in more.items():
        call = named.get(call_id)
        run = runs.get(call.run_id) if call else None
        if call is not None and run is not None:
            stand = consent_terms.stand(at_work)
            given = {"call": _call(call), "run": run_of(run), "terms_stand": stand}
            details[call_id] = row_as(OpenCallDetails, at_work, **given)
    return details


async def prepared_action(connection: Connection, call_id: UUID) -> bytes | None:
    """Return the action that `on_pending` has prepared or begun to prepare for a call, or None."""
    found: bytes | None = (await connection.execute(_HELD, {"call": call_id})).scalar_one_or_none()
    return found


def _call(row: Row[Any]) -> CallView:
    answer = CallAnswer(AnswerKind(row.answer_kind), row.answer or "") if row.answer_kind else None
    edited = between(row.proposed_action, row.edited_action)
    return row_as(
        CallView, row, index=row.position, answer=answer, edited=edited, notes=tuple(row.notes or ())
    )


_ids = func.unnest(bindparam("calls", type_=ARRAY(Uuid)))
_IS_NAMED = tool_call.c.id == func.any(func.array(select(_ids).scalar_subquery()))  # as `runs.NAMED`
_RUNS_OF_CALLS = RUN_VIEW.where(agent_run.c.id.in_(select(tool_call.c.run_id).where(_IS_NAMED)))
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
        *tool_call.c["id", "run_id", "turn", "model_call_id", "tool", "raw_arguments", "state"],
        *tool_call.c["blocking", "answer_kind", "answer", "repeats", "created_at", "answered_at", "place"],
        tool_call.c.index.label("position"),
        _request.c.id.label("request_id"),
        _edit.c.action.label("edited_action"),
        case((_edit.c.action.is_not(None), _proposed_action)).label("proposed_action"),
        case((_request.c.status == RequestStatus.APPROVED, notes(_request))).label("notes"),
    )
    .outerjoin(_request, and_(_request.c.call_id == tool_call.c.id, _request.c.ask_no == tool_call.c.ask_no))
    .outerjoin(
        _edit,
        and_(
            present_revision(_request, _edit),
            _request.c.status == RequestStatus.APPROVED,
            _edit.c.editor_user_id.is_not(None),
        ),
    )
)
_CALLS = _CALL_VIEW.where(tool_call.c.run_id == NAMED).order_by(tool_call.c.turn, tool_call.c.index)
TRANSCRIPTS = (RUNS, MESSAGES, _CALLS)
_ASKED_BELOW = _CALL_VIEW.where(
    tool_call.c.state == CallState.ASKED,
    tool_call.c.run_id.in_(select(descendants(bindparam("run")).c.id)),
).order_by(tool_call.c.id)
_CALLS_NAMED = _CALL_VIEW.where(_IS_NAMED)
_HELD = text("SELECT held FROM tool_call WHERE id = :call")
_AT_WORK = text("""
SELECT c.id, a.requester_asserted, a.team_id, m.text AS words, c.tool_version, c.announced_at IS NOT NULL AS announced,
       c.held, d.outcome IS NOT NULL AS decided, d.digest AS digest_decided, v.action AS action_decided,
       c.action AS action_judged,
       v.facts, v.facts_source, 0.0::float AS facts_age,
       CASE WHEN r.id IS NOT NULL THEN coalesce(rule.content, '{}') END AS policy,
       v.signature_digest AS signature_decided,
       coalesce(d.revision > 1, false) AS edited, r.escalated_at IS NOT NULL AS escalated,
       coalesce(extract(epoch FROM d.decided_at - r.created_at)::float, 0) AS waited,
       coalesce(extract(epoch FROM clock_timestamp() - d.decided_at)::float, 0) AS age,
       (SELECT decode(detail ->> 'digest', 'hex') FROM audit_event
        WHERE subject = 'request:' || r.id AND event = 'request.decided') AS digest_recorded,
       r.id AS request_id, r.approvers, r.excluded, r.approvals_required, r.expires_at, r.requester_team_id,
       r.requester_user_id,
       (SELECT detail ->> 'terms' FROM audit_event
        WHERE subject = 'request:' || r.id AND event IN ('request.opened', 'request.edited', 'request.escalated')
        ORDER BY seq DESC LIMIT 1) AS terms_recorded,
       r.agent_version AS asked_version,
       (SELECT count(*) FROM execution WHERE call_id = c.id) AS attempts,
       coalesce(c.retry_at > clock_timestamp(), false) AS retried_later,
       c.executor::text AS executor, c.executor::text AS executor_asked, c.executor_key,
       coalesce(c.lapse_at <= clock_timestamp(), false) AS lapsed
FROM tool_call AS c JOIN agent_run AS a ON a.id = c.run_id
LEFT JOIN run_message AS m ON m.run_id = c.run_id AND m.turn = c.turn AND m.role = 'assistant'
LEFT JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
LEFT JOIN rule ON rule.digest = r.rule_digest
LEFT JOIN decision AS d ON d.request_id = r.id
LEFT JOIN request_revision AS v ON v.request_id = r.id AND v.n = coalesce(d.revision, r.revision)
WHERE c.id = ANY (ARRAY(SELECT unnest(CAST(:calls AS uuid[]))))
""")


async def seconds_waited(connection: Connection, run_id: UUID, since: datetime) -> float:
    """Descendants' waits and sleeps count, too."""
    found: float = (await connection.execute(_WAITED, {"run": run_id, "since": since})).scalar_one()
    return found


_WAITED = text("""
WITH RECURSIVE family AS (
    SELECT id FROM agent_run WHERE id = :run
    UNION ALL SELECT r.id FROM agent_run AS r JOIN family AS f ON r.parent_run_id = f.id
), spell AS (
    SELECT q.created_at AS began, q.decided_at AS ended
    FROM approval_request AS q JOIN family AS f ON q.run_id = f.id
    UNION ALL
    SELECT e.finished_at, s.created_at FROM family AS f JOIN tool_call AS c ON c.run_id = f.id
    JOIN execution AS e ON e.call_id = c.id AND e.status = 'in_doubt'
    LEFT JOIN settlement AS s ON s.execution_id = e.id
    UNION ALL
    SELECT c.created_at, c.answered_at FROM tool_call AS c JOIN family AS f ON c.run_id = f.id
    WHERE c.tool = 'sleep' AND c.retry_at IS NOT NULL
)
SELECT coalesce(sum(extract(epoch FROM upper(w) - lower(w))), 0)::float FROM unnest((
    SELECT range_agg(tstzrange(greatest(began, :since), coalesce(ended, clock_timestamp()))) FROM spell
    WHERE coalesce(ended, clock_timestamp()) > greatest(began, :since))) AS w
""")

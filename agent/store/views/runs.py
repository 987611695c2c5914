"""Whole runs, as their messages, pages and commands need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Row,
    Text,
    Uuid,
    any_,
    bindparam,
    case,
    cast,
    column,
    distinct,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
    text,
)

from agent.database.transaction import Connection, fetch
from agent.domain.call_answers import NOT_ALLOWED
from agent.domain.pause import EVERYTHING
from agent.domain.request import RequestStatus
from agent.domain.run import AnswerKind, CallOutcome, CallState, Message, RunStatus, RunValues, RunView
from agent.store import policy
from agent.store.rows import person, row_as
from agent.store.tables import agent_run, approval_request, card_place, execution, pause, tool_call
from agent.store.views.descendants import waiting_descendants
from agent.store.views.request_rows import channel_card, message_ts
from signoff.values import Person


def call_outcomes() -> ColumnElement[Any]:
    """Each `CallOutcome` among them; NULL before the run is completed, or without actions.

    A read-only call that people were not asked about is no action, nor is one that started a child run. What a child
    run at work may still do is open.
    """
    call, again = tool_call.alias("made"), tool_call.alias("again")
    child, started = agent_run.alias("child"), agent_run.alias("started")
    root = select(agent_run.c.id, agent_run.c.status).correlate(agent_run)
    family = root.cte("family", recursive=True, nesting=True)
    family = family.union_all(
        select(child.c.id, child.c.status).join(family, child.c.parent_run_id == family.c.id)
    )
    asked = exists().where(approval_request.c.call_id == call.c.id)
    handed_down = exists().where(
        started.c.parent_run_id == call.c.run_id, started.c.parent_call_id == call.c.id
    )
    begun = exists().where(execution.c.call_id == call.c.id, ~execution.c.read_only)
    outcome = case(
        (call.c.state != CallState.ANSWERED, CallOutcome.OPEN.value),
        (call.c.lapsed_at.is_not(None), CallOutcome.LAPSED.value),
        (call.c.answer_kind.in_(sorted(NOT_ALLOWED)), cast(call.c.answer_kind, Text)),
        (or_(handed_down, ~or_(asked, begun)), None),
        (call.c.answer_kind == AnswerKind.NOTHING_DONE, CallOutcome.NOTHING_DONE.value),
        (call.c.answer_kind != AnswerKind.ERROR, CallOutcome.DONE.value),
        (begun, CallOutcome.FAILED.value),
        else_=CallOutcome.NOT_RUN.value,
    )
    repeated = exists().where(again.c.repeats == call.c.id)
    each = select(outcome.label("outcome")).join(family, family.c.id == call.c.run_id).where(~repeated)
    at_work = family.c.status.in_([RunStatus.WORKING, RunStatus.PENDING_APPROVAL])
    each_one = each.union_all(select(literal(CallOutcome.OPEN.value)).where(at_work)).subquery("each_one")
    found = select(func.array_agg(distinct(each_one.c.outcome))).where(each_one.c.outcome.is_not(None))
    return case((agent_run.c.status == RunStatus.COMPLETED, found.scalar_subquery()))


async def run_view(connection: Connection, run_id: UUID) -> RunView | None:
    """Return a whole run as its pages show it, or None if there is no such run."""
    rows = await fetch(connection, _RUN, id=run_id)
    return run_of(rows[0]) if rows else None


async def waiting_card(connection: Connection, run_id: UUID) -> tuple[str, str] | None:
    """Channel and `ts` of the first posted waiting card."""
    rows = await fetch(connection, _WAITING_CARD, id=run_id)
    return (rows[0].channel_id, rows[0].ts) if rows else None


async def thread_of(
    connection: Connection, run_id: UUID | None, request_id: UUID | None
) -> tuple[str, str] | None:
    """Channel and `ts` of the run's message, or of the card, of whose outcome somebody is told."""
    rows = await fetch(connection, _THREAD, run=run_id, request=request_id)
    return (rows[0].channel_id, rows[0].ts) if rows else None


async def last_rejection(connection: Connection, run_id: UUID) -> str | None:
    """A reviewer's words for the latest rejection since a person wrote to the run."""
    rows = await fetch(connection, _REASON, run=run_id)
    return str(rows[0].reason) if rows else None


async def root_of_run(connection: Connection, run_id: UUID) -> UUID:
    """Return the run's topmost ancestor, or the id itself if it has none or is unknown."""
    return UUID(str((await connection.execute(_ROOT, {"id": run_id})).scalar() or run_id))


async def recent_runs(
    connection: Connection, *, team_id: str | None = None, limit: int = 20
) -> list[RunView]:
    """Return the latest runs, newest first, of one workspace or of all (None)."""
    rows = await fetch(connection, _OF_ALL if team_id is None else _OF_TEAM, team=team_id, limit=limit)
    return [run_of(row) for row in rows]


async def running(connection: Connection, team_id: str, limit: int = 20) -> list[RunView]:
    """Return a workspace's latest runs that work or wait for people, newest first."""
    rows = await fetch(connection, _RUNNING, team=team_id, limit=limit)
    return [run_of(row) for row in rows]


@dataclass(frozen=True, slots=True)
class CancelContext:
    """``audiences`` decide its or its descendants' requests."""

    run_id: UUID
    team_id: str | None
    requester: Person | None
    audiences: tuple[tuple[tuple[str, ...], str], ...]


async def cancel_context(connection: Connection, run_id: UUID) -> CancelContext | None:
    """Return what decides who may cancel this run, or None if there is no such run."""
    rows = (await connection.execute(_CANCEL_CONTEXT, {"id": run_id})).all()
    if not rows:
        return None
    first = rows[0]
    audiences = tuple((tuple(row.approvers), row.review_channel) for row in rows if row.approvers)
    requester = person(first.requester_team_id, first.requester_user_id)
    return CancelContext(first.id, first.team_id, requester, audiences)


async def values_of(connection: Connection, run_ids: Sequence[UUID]) -> dict[UUID, RunValues]:
    """Return, by run, the values of its and its descendants' calls that may have to be masked."""
    rows = (await connection.execute(_VALUES, {"ids": list(run_ids)})).all()
    known = await policy.in_force(connection) if rows else None
    return {row.root: _values(row, known.source if known else None) for row in rows}


async def run_and_values(connection: Connection, run_id: UUID) -> tuple[RunView, RunValues] | None:
    """Return a run with the values to mask in its texts, or None if there is no such run."""
    rows = await fetch(connection, _RUN_AND_VALUES, id=run_id, ids=[run_id])
    return (run_of(rows[0]), _values(rows[0], rows[0].policy_source)) if rows else None


def _values(row: Row[Any], policy_source: str | None) -> RunValues:
    return RunValues(
        arguments=(*(row.raw_arguments or ()), *map(bytes, row.actions or ())),
        facts=tuple(map(bytes, row.facts or ())),
        redact=tuple(dict.fromkeys(name for names in row.redact or () for name in names or ())),
        task=row.given,
        unread=row.unread,
        policy=policy_source,
    )


async def run_in_thread(connection: Connection, team_id: str, channel_id: str, thread_ts: str) -> UUID | None:
    """Return the run whose Slack thread this is, or None if the thread is no run's."""
    parameters = {"team": team_id, "channel": channel_id, "ts": thread_ts}
    found: UUID | None = (await connection.execute(_IN_THREAD, parameters)).scalar_one_or_none()
    return found


async def has_unknown_thread(connection: Connection, team_id: str, channel_id: str) -> bool:
    """Return whether a run's first message may stand in this channel without its time being stored yet."""
    found = await connection.execute(_UNKNOWN_THREAD, {"team": team_id, "channel": channel_id})
    return bool(found.scalar_one())


async def messages(connection: Connection, run_id: UUID) -> tuple[Message, ...]:
    """Return all messages of a run in their order; none if the run is unknown."""
    return tuple(message_of(row) for row in await fetch(connection, MESSAGES, runs=[run_id]))


def message_of(r: Row[Any]) -> Message:
    """Return a row of a run's messages as a message, with its author if a person wrote it."""
    return Message(r.seq, r.role, r.turn, r.text, person(r.author_team_id, r.author_user_id), r.created_at)


def run_of(row: Row[Any]) -> RunView:
    """Return a row of runs as a view; `paused_agent` is None if nothing or everything is paused."""
    paused_agent = None if row.paused_scope == EVERYTHING else row.paused_scope
    return row_as(RunView, row, above=tuple(row.ancestor_agents), paused_agent=paused_agent)


_asked = tool_call.alias("asked")
_doubtful = tool_call.alias("doubtful")
_sleeping = tool_call.alias("sleeping")
_pauses_run = or_(
    pause.c.scope == EVERYTHING,
    pause.c.scope == agent_run.c.agent,
    pause.c.scope == any_(agent_run.c.ancestor_agents),
)
RUN_VIEW = select(
    agent_run,
    select(func.count())
    .where(_asked.c.run_id == agent_run.c.id, _asked.c.state == CallState.ASKED)
    .scalar_subquery()
    .label("waiting"),
    select(func.count())
    .where(_doubtful.c.run_id == agent_run.c.id, _doubtful.c.state == CallState.IN_DOUBT)
    .scalar_subquery()
    .label("in_doubt"),
    select(func.min(_sleeping.c.retry_at))
    .where(
        _sleeping.c.run_id == agent_run.c.id,
        _sleeping.c.state == CallState.READY,
        _sleeping.c.tool == "sleep",
    )
    .having(func.count() == agent_run.c.awaiting_calls)
    .scalar_subquery()
    .label("sleeping_until"),
    waiting_descendants(agent_run.c.id).label("waiting_below"),
    call_outcomes().label("call_outcomes"),
    select(pause.c.by)
    .where(_pauses_run)
    .order_by(pause.c.scope)
    .limit(1)
    .scalar_subquery()
    .label("paused_by"),
    select(func.min(pause.c.scope)).where(_pauses_run).scalar_subquery().label("paused_scope"),
)

_ids = func.unnest(bindparam("runs", type_=ARRAY(Uuid)))
NAMED = func.any(func.array(select(_ids).scalar_subquery()))
"""Hides the number of runs from the planner, so it keeps the plan."""

RUNS = RUN_VIEW.where(agent_run.c.id == NAMED)
_RUN = RUN_VIEW.where(agent_run.c.id == bindparam("id"))
_OF_ALL = RUN_VIEW.order_by(agent_run.c.id.desc()).limit(bindparam("limit"))
_OF_TEAM = _OF_ALL.where(agent_run.c.team_id == bindparam("team"))
_RUNNING = _OF_TEAM.where(agent_run.c.status.in_([RunStatus.WORKING, RunStatus.PENDING_APPROVAL]))
_request, _place = approval_request.alias("request"), card_place.alias("place")
_WAITING_CARD = (
    select(_request.c.channel_id, message_ts(_place))
    .join(_place, channel_card(_request, _place))
    .where(_request.c.run_id == bindparam("id"), _request.c.status == RequestStatus.WAITING)
    .order_by(_request.c.id)
    .limit(1)
)
_THREAD = text("""
SELECT channel_id, thread_ts AS ts FROM agent_run WHERE id = CAST(:run AS uuid) AND thread_ts IS NOT NULL
UNION ALL
SELECT p.channel_id, coalesce(p.ts, g.ts) FROM card_place AS p LEFT JOIN request_group AS g ON g.name = p.digest
WHERE p.request_id = CAST(:request AS uuid) AND p.surface = 'channel' AND coalesce(p.ts, g.ts) IS NOT NULL LIMIT 1
""")
_REASON = text("""
SELECT d.reason FROM approval_request AS r JOIN decision AS d ON d.request_id = r.id
WHERE r.run_id = :run AND d.outcome = 'rejected' AND btrim(d.reason) <> ''
  AND d.decided_at > (SELECT max(created_at) FROM run_message WHERE run_id = :run AND role = 'user')
ORDER BY d.decided_at DESC LIMIT 1
""")
_ROOT = text("SELECT coalesce(ancestor_ids[1], id) FROM agent_run WHERE id = :id")
_CANCEL_CONTEXT = text("""
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
SELECT f.root, array_agg(DISTINCT c.raw_arguments) FILTER (WHERE c.id IS NOT NULL) AS raw_arguments,
       array_agg(DISTINCT v.action) FILTER (WHERE v.action IS NOT NULL) AS actions,
       array_agg(DISTINCT v.facts) FILTER (WHERE v.facts IS NOT NULL) AS facts,
       json_agg(DISTINCT rule.content -> 'redact') FILTER (WHERE r.id IS NOT NULL) AS redact,
       min(a.task) AS given, min(a.turn) = 0 AND count(c.id) = 0 AS unread
FROM family AS f JOIN agent_run AS a ON a.id = f.root LEFT JOIN tool_call AS c ON c.run_id = f.id
LEFT JOIN approval_request AS r ON r.call_id = c.id
LEFT JOIN rule ON rule.digest = r.rule_digest
LEFT JOIN request_revision AS v ON v.request_id = r.id
GROUP BY f.root
""")
_values_of_run = _VALUES.columns(
    column("root", Uuid), *map(column, ("raw_arguments", "actions", "facts", "redact", "given", "unread"))
).subquery("of_run")
_POLICY: ColumnElement[str | None] = literal_column(
    "(SELECT source FROM policy ORDER BY epoch DESC LIMIT 1)"
).label("policy_source")
_RUN_AND_VALUES = _RUN.add_columns(
    *(each for each in _values_of_run.c if each.name != "root"), _POLICY
).join_from(agent_run, _values_of_run, _values_of_run.c.root == agent_run.c.id, isouter=True)
_IN_THREAD = text("""
SELECT id FROM agent_run WHERE team_id = :team AND channel_id = :channel AND thread_ts = :ts
""")
_UNKNOWN_THREAD = text("""
SELECT EXISTS (SELECT FROM delivery
               WHERE state = 'pending' AND kind = 'run_root' AND ts IS NULL
                 AND team_id = :team AND channel_id = :channel)
""")
MESSAGES = text("""
SELECT run_id, seq, role::text AS role, turn, text, author_team_id, author_user_id, created_at
FROM run_message WHERE run_id = ANY (ARRAY(SELECT unnest(CAST(:runs AS uuid[])))) ORDER BY run_id, seq
""")

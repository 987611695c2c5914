"""Erase old content with the schema owner's rights. Votes, decisions, digests and audit stay."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    FromClause,
    ScalarSelect,
    Select,
    Table,
    TextClause,
    Uuid,
    and_,
    any_,
    bindparam,
    exists,
    func,
    or_,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

from agent.database.transaction import Connection, fetch
from agent.domain.request import ExecutionStatus, RequestStatus
from agent.domain.run import CallState, RunStatus
from agent.store.ids import highest_until
from agent.store.tables import (
    agent_run,
    approval_grant,
    approval_request,
    delivery,
    execution,
    judgement,
    notice,
    request_revision,
    settlement,
    tool_call,
)

FIRST = UUID(int=0)


async def is_owner(connection: Connection) -> bool:
    """Whether the connection's role has the rights of the schema's owner, as erasing needs."""
    return bool((await connection.execute(_IS_OWNER)).scalar_one())


async def cutoff(connection: Connection, ago: timedelta) -> datetime:
    """Return the database's time this long ago; content older than that is due to be erased."""
    found: datetime = (await connection.execute(_MOMENT, {"seconds": ago.total_seconds()})).scalar_one()
    return found


async def count(connection: Connection, before: datetime) -> tuple[int, int, int, int, int]:
    """Return how many runs, requests, deliveries, notices and judgements are due, in this order."""
    parameters = {"before": before, "last": highest_until(before)}
    (row,) = await fetch(connection, _COUNT, **parameters)
    return row.runs, row.requests, row.deliveries, row.notices, row.judgements


async def runs(connection: Connection, before: datetime, after: UUID, limit: int) -> list[UUID]:
    """Lock the next due runs; those locked elsewhere are in use."""
    return await _ids(connection, _RUNS, before, after, limit)


async def requests(connection: Connection, before: datetime, after: UUID, limit: int) -> list[UUID]:
    """Lock the next due requests without a run."""
    return await _ids(connection, _REQUESTS, before, after, limit)


async def still_due(connection: Connection, ids: Sequence[UUID], before: datetime) -> list[UUID]:
    """Of locked requests: another eraser may have been at them between the look and the lock."""
    rows = await fetch(connection, _STILL_DUE, ids=list(ids), before=before, last=highest_until(before))
    return [row.id for row in rows]


async def erase_runs(connection: Connection, ids: Sequence[UUID]) -> int:
    """Returns how many of the runs' requests are erased, too."""
    rows = await connection.execute(_REQUESTS_OF_RUNS, {"ids": list(ids)})
    asked = list(rows.scalars())
    await _apply(connection, _OF_RUNS, ids)
    await erase_requests(connection, asked)
    return len(asked)


async def erase_requests(connection: Connection, ids: Sequence[UUID]) -> None:
    """Erase what these requests asked, their attempts' results and their messages to Slack."""
    await _apply(connection, _OF_REQUESTS, ids)


async def _apply(connection: Connection, statements: Sequence[TextClause], ids: Sequence[UUID]) -> None:
    note = (await connection.execute(_NOTE)).scalar_one()
    for statement in statements:
        takes = statement.compile().params
        given = {"ids": list(ids), "note": note}
        await connection.execute(statement, {name: given[name] for name in takes})


async def forget_deliveries(connection: Connection, before: datetime, limit: int) -> int:
    """Delete up to `limit` old Slack messages that are not pending, and return how many."""
    return await _forget(connection, _DELIVERIES, before, limit)


async def forget_notices(connection: Connection, before: datetime, limit: int) -> int:
    """Delete up to `limit` old webhook and e-mail notices that are not pending, and return how many."""
    return await _forget(connection, _NOTICES, before, limit)


async def erase_judgements(connection: Connection, before: datetime, limit: int) -> int:
    """Erase the action, facts and reasons of up to `limit` old judgements, and return how many."""
    return await _forget(connection, _JUDGEMENTS, before, limit)


async def _ids(
    connection: Connection, due: Select[tuple[UUID]], before: datetime, after: UUID, limit: int
) -> list[UUID]:
    rows = await fetch(connection, due, before=before, last=highest_until(before), after=after, limit=limit)
    return [row.id for row in rows]


async def _forget(connection: Connection, statement: TextClause, before: datetime, limit: int) -> int:
    parameters = {"before": before, "last": highest_until(before), "limit": limit}
    return (await connection.execute(statement, parameters)).rowcount


_IS_OWNER = text("""
SELECT pg_has_role(current_user, relowner, 'USAGE') FROM pg_class WHERE oid = 'request_revision'::regclass
""")
_MOMENT = text("SELECT clock_timestamp() - make_interval(secs => :seconds)")
# A guard of the schema expects exactly these words.
_NOTE = text("SELECT 'erased on ' || to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')")
_BEFORE: ColumnElement[datetime] = bindparam("before")


def _open_attempt(of: ColumnElement[bool]) -> ColumnElement[bool]:
    return exists(
        select(1)
        .select_from(execution.outerjoin(settlement, settlement.c.execution_id == execution.c.id))
        .where(
            of,
            or_(
                execution.c.status == ExecutionStatus.CLAIMED,
                execution.c.finished_at >= _BEFORE,
                settlement.c.created_at >= _BEFORE,
                and_(execution.c.status == ExecutionStatus.IN_DOUBT, settlement.c.execution_id.is_(None)),
            ),
        )
    )


_RUN_IS_DUE = and_(
    agent_run.c.id < bindparam("last"),
    agent_run.c.status.not_in([RunStatus.WORKING, RunStatus.PENDING_APPROVAL]),
    agent_run.c.inputs == agent_run.c.heard,
    agent_run.c.updated_at < _BEFORE,
    or_(agent_run.c.erased_at.is_(None), agent_run.c.erased_at < agent_run.c.updated_at),
    ~exists().where(
        tool_call.c.run_id == agent_run.c.id,
        or_(
            tool_call.c.state != CallState.ANSWERED,
            tool_call.c.answered_at >= _BEFORE,
            _open_attempt(execution.c.call_id == tool_call.c.id),
        ),
    ),
    ~exists().where(
        approval_request.c.run_id == agent_run.c.id,
        or_(
            approval_request.c.status == RequestStatus.WAITING,
            approval_request.c.decided_at >= _BEFORE,
            _open_attempt(execution.c.request_id == approval_request.c.id),
        ),
    ),
)
_REQUEST_IS_DUE = and_(
    approval_request.c.id < bindparam("last"),
    approval_request.c.run_id.is_(None),
    approval_request.c.decided_at < _BEFORE,
    exists().where(
        tool_call.c.id == approval_request.c.call_id,
        tool_call.c.state == CallState.ANSWERED,
        tool_call.c.answered_at < _BEFORE,
    ),
    or_(
        exists().where(
            request_revision.c.request_id == approval_request.c.id, request_revision.c.erased_at.is_(None)
        ),
        exists().where(
            execution.c.request_id == approval_request.c.id,
            func.num_nonnulls(execution.c.result, execution.c.error, execution.c.late_result) > 0,
        ),
    ),
    ~_open_attempt(execution.c.request_id == approval_request.c.id),
    # What a grant allows is in its request. A used-up one may still cover the retry of a call.
    ~exists().where(
        approval_grant.c.request_id == approval_request.c.id,
        approval_grant.c.ended_at.is_(None),
        approval_grant.c.until > func.clock_timestamp(),
    ),
)


def _next(table: Table, is_due: ColumnElement[bool]) -> Select[tuple[UUID]]:
    return (
        select(table.c.id)
        .where(table.c.id > bindparam("after"), is_due)
        .order_by(table.c.id)
        .limit(bindparam("limit"))
        .with_for_update(skip_locked=True)
    )


def _count(rows: FromClause, *conditions: ColumnElement[bool]) -> ScalarSelect[int]:
    return select(func.count()).select_from(rows).where(*conditions).scalar_subquery()


def _is_old(table: Table) -> ColumnElement[bool]:
    return and_(table.c.id < bindparam("last"), table.c.state != "pending", table.c.created_at < _BEFORE)


_HAS_OLD_CONTENT = and_(
    judgement.c.id < bindparam("last"), judgement.c.action.is_not(None), judgement.c.created_at < _BEFORE
)
_RUNS = _next(agent_run, _RUN_IS_DUE)
_REQUESTS = _next(approval_request, _REQUEST_IS_DUE)
_STILL_DUE = (
    select(approval_request.c.id)
    .where(approval_request.c.id == any_(bindparam("ids", type_=ARRAY(Uuid))), _REQUEST_IS_DUE)
    .order_by(approval_request.c.id)
)
_of_run = approval_request.alias("of_run")
_COUNT = select(
    _count(agent_run, _RUN_IS_DUE).label("runs"),
    (
        _count(approval_request, _REQUEST_IS_DUE)
        + _count(_of_run.join(agent_run, agent_run.c.id == _of_run.c.run_id), _RUN_IS_DUE)
    ).label("requests"),
    _count(delivery, _is_old(delivery)).label("deliveries"),
    _count(notice, _is_old(notice)).label("notices"),
    _count(judgement, _HAS_OLD_CONTENT).label("judgements"),
)
_REQUESTS_OF_RUNS = text(
    "SELECT id FROM approval_request WHERE run_id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE"
)
# Lines contain what they tell and are useless by then; cards are drawn from facts.
_FORGET_OF_RUNS = text("""
DELETE FROM delivery WHERE run_id = ANY(:ids) AND (state <> 'pending' OR kind NOT IN ('card', 'run_root'))
""")
_FORGET_OF_REQUESTS = text("""
DELETE FROM delivery WHERE request_id = ANY(:ids) AND (state <> 'pending' OR kind NOT IN ('card', 'run_root'))
""")
# A cause among our own words is an outcome; any other is text of a model or tool.
_OF_RUNS = (
    text("""
UPDATE agent_run SET task = :note, answer = CASE WHEN answer IS NOT NULL THEN :note END,
    cause = CASE WHEN cause ~ '^[a-z_]{1,40}$' THEN cause WHEN cause IS NOT NULL THEN :note END,
    progress = NULL, label = NULL, program_user = NULL, erased_at = clock_timestamp()
WHERE id = ANY(:ids)"""),
    text("UPDATE run_message SET text = :note WHERE run_id = ANY(:ids) AND text IS NOT NULL"),
    text("""
UPDATE tool_call SET raw_arguments = '{}', action = NULL, digest = NULL, held = NULL,
    answer = CASE WHEN answer IS NOT NULL THEN :note END
WHERE run_id = ANY(:ids)"""),
    text("""
UPDATE execution SET result = NULL, error = NULL, late_result = NULL
WHERE call_id IN (SELECT id FROM tool_call WHERE run_id = ANY(:ids))"""),
    _FORGET_OF_RUNS,
)
_OF_REQUESTS = (
    text("""
UPDATE request_revision SET action = '', arguments = NULL, facts = NULL, rationale = NULL, description = :note,
    context = jsonb_build_object('task', CAST(:note AS text)),
    changes = CASE WHEN changes IS NOT NULL THEN CAST('[]' AS jsonb) END, erased_at = now()
WHERE request_id = ANY(:ids) AND erased_at IS NULL"""),
    text(
        "UPDATE answer SET value = '', erased_at = now() WHERE request_id = ANY(:ids) AND erased_at IS NULL"
    ),
    # A choice of the note alone: every reader of a form can read it.
    text("""
UPDATE approval_request AS r SET answer_form = r.answer_form || jsonb_build_object(
    'schema', jsonb_build_object('enum', jsonb_build_array(v.description)), 'order', CAST('[]' AS jsonb))
FROM request_revision AS v
WHERE v.request_id = r.id AND v.n = r.revision AND r.id = ANY(:ids) AND r.answer_form IS NOT NULL"""),
    text("UPDATE execution SET result = NULL, error = NULL, late_result = NULL WHERE request_id = ANY(:ids)"),
    _FORGET_OF_REQUESTS,
)
_DELIVERIES = text("""
DELETE FROM delivery WHERE id IN (
    SELECT id FROM delivery WHERE id < :last AND state <> 'pending' AND created_at < :before
    ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED)
""")
_NOTICES = text("""
DELETE FROM notice WHERE id IN (
    SELECT id FROM notice WHERE id < :last AND state <> 'pending' AND created_at < :before
    ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED)
""")
_JUDGEMENTS = text("""
UPDATE judgement SET action = NULL, facts = NULL, because = '' WHERE id IN (
    SELECT id FROM judgement WHERE id < :last AND action IS NOT NULL AND created_at < :before
    ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED)
""")

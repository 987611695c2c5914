"""What is erased after its time: arguments, facts, contexts, transcripts, results, and what Slack was told of them.

Votes, decisions, digests and the record stay. These statements need the rights of the schema's owner: the service's
role may neither change what people were shown nor what was said.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import TextClause, text

from agent.database.transaction import Connection
from agent.store.ids import id_at

FIRST = UUID(int=0)
"""Before every id."""


async def is_owner(connection: Connection) -> bool:
    """Whether this session has the rights of whoever owns the tables."""
    return bool((await connection.execute(_IS_OWNER)).scalar_one())


async def cutoff(connection: Connection, ago: timedelta) -> datetime:
    """The time so long ago, by the database's clock."""
    found: datetime = (await connection.execute(_MOMENT, {"seconds": ago.total_seconds()})).scalar_one()
    return found


async def count(connection: Connection, before: datetime) -> tuple[int, int, int, int]:
    """How many runs, requests, deliveries and notices are due to be erased."""
    parameters = {"before": before, "last": _last_id(before)}
    row = (await connection.execute(_COUNT, parameters)).one()
    return row.runs, row.requests, row.deliveries, row.notices


async def runs(connection: Connection, before: datetime, after: UUID, limit: int) -> list[UUID]:
    """The next runs that are due, locked; what somebody else has locked is not over."""
    return await _ids(connection, _RUNS, before, after, limit)


async def requests(connection: Connection, before: datetime, after: UUID, limit: int) -> list[UUID]:
    """The next requests without a run that are due, locked."""
    return await _ids(connection, _REQUESTS, before, after, limit)


async def erase_runs(connection: Connection, ids: Sequence[UUID]) -> int:
    """Erase these runs and their requests. Returns how many requests."""
    rows = await connection.execute(_REQUESTS_OF_RUNS, {"ids": list(ids)})
    asked = list(rows.scalars())
    await _apply(connection, _OF_RUNS, ids)
    await erase_requests(connection, asked)
    return len(asked)


async def erase_requests(connection: Connection, ids: Sequence[UUID]) -> None:
    """Erase these requests: all their revisions and what came of them."""
    await _apply(connection, _OF_REQUESTS, ids)


async def _apply(connection: Connection, statements: Sequence[TextClause], ids: Sequence[UUID]) -> None:
    note = (await connection.execute(_NOTE)).scalar_one()
    for statement in statements:
        takes = statement.compile().params
        given = {"ids": list(ids), "note": note}
        await connection.execute(statement, {name: given[name] for name in takes})


async def forget_deliveries(connection: Connection, before: datetime, limit: int) -> int:
    """Delete so many deliveries that were settled one way or the other."""
    return await _forget(connection, _DELIVERIES, before, limit)


async def forget_notices(connection: Connection, before: datetime, limit: int) -> int:
    """The same for notices to webhooks and by e-mail."""
    return await _forget(connection, _NOTICES, before, limit)


async def _ids(
    connection: Connection, query: TextClause, before: datetime, after: UUID, limit: int
) -> list[UUID]:
    parameters = {"before": before, "last": _last_id(before), "after": after, "limit": limit}
    return list((await connection.execute(query, parameters)).scalars())


async def _forget(connection: Connection, query: TextClause, before: datetime, limit: int) -> int:
    parameters = {"before": before, "last": _last_id(before), "limit": limit}
    return (await connection.execute(query, parameters)).rowcount


def _last_id(before: datetime) -> UUID:
    """No id of that time is behind it, unless a clock was a minute ahead."""
    return id_at(before + timedelta(minutes=1))


_IS_OWNER = text("""
SELECT pg_has_role(current_user, relowner, 'USAGE') FROM pg_class WHERE oid = 'request_revision'::regclass
""")
_MOMENT = text("SELECT clock_timestamp() - make_interval(secs => :seconds)")
# What stands in the place of every text that was erased; a guard of the schema expects these very words.
_NOTE = text("SELECT 'erased on ' || to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')")
# An attempt under way or in doubt, or one that ended, or that a person settled, lately.
_OPEN_ATTEMPT = """
EXISTS (SELECT FROM execution AS e LEFT JOIN settlement AS s ON s.execution_id = e.id
        WHERE {of} AND (e.status = 'claimed' OR e.finished_at >= :before OR s.created_at >= :before
                        OR (e.status = 'in_doubt' AND s.execution_id IS NULL)))
"""
_DUE_RUN = f"""
a.id < :last AND a.status NOT IN ('working', 'pending_approval') AND a.inputs = a.heard
AND a.updated_at < :before AND (a.erased_at IS NULL OR a.erased_at < a.updated_at)
AND NOT EXISTS (SELECT FROM tool_call AS c WHERE c.run_id = a.id
                AND (c.state <> 'answered' OR c.answered_at >= :before
                     OR {_OPEN_ATTEMPT.format(of="e.call_id = c.id")}))
AND NOT EXISTS (SELECT FROM approval_request AS r WHERE r.run_id = a.id
                AND (r.status = 'waiting' OR r.decided_at >= :before OR r.lapse_at IS NOT NULL
                     OR {_OPEN_ATTEMPT.format(of="e.request_id = r.id")}))
"""  # noqa: S608 - constants
_DUE_REQUEST = f"""
r.id < :last AND r.run_id IS NULL AND r.decided_at < :before AND r.lapse_at IS NULL
AND (EXISTS (SELECT FROM request_revision AS v WHERE v.request_id = r.id AND v.erased_at IS NULL)
     OR EXISTS (SELECT FROM execution AS e
                WHERE e.request_id = r.id AND num_nonnulls(e.result, e.error, e.late_result) > 0))
AND NOT {_OPEN_ATTEMPT.format(of="e.request_id = r.id")}
"""  # noqa: S608 - constants
_RUNS = text(f"""
SELECT a.id FROM agent_run AS a WHERE a.id > :after AND {_DUE_RUN}
ORDER BY a.id LIMIT :limit FOR UPDATE SKIP LOCKED
""")  # noqa: S608 - constants
_REQUESTS = text(f"""
SELECT r.id FROM approval_request AS r WHERE r.id > :after AND {_DUE_REQUEST}
ORDER BY r.id LIMIT :limit FOR UPDATE SKIP LOCKED
""")  # noqa: S608 - constants
_OLD = "id < :last AND state <> 'pending' AND created_at < :before"
_COUNT = text(f"""
SELECT (SELECT count(*) FROM agent_run AS a WHERE {_DUE_RUN}) AS runs,
       (SELECT count(*) FROM approval_request AS r WHERE {_DUE_REQUEST})
       + (SELECT count(*) FROM approval_request AS q JOIN agent_run AS a ON a.id = q.run_id WHERE {_DUE_RUN})
       AS requests,
       (SELECT count(*) FROM delivery WHERE {_OLD}) AS deliveries,
       (SELECT count(*) FROM notice WHERE {_OLD}) AS notices
""")  # noqa: S608 - constants
_REQUESTS_OF_RUNS = text(
    "SELECT id FROM approval_request WHERE run_id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE"
)
# Lines hold what they tell, and nobody is served by one that could not be told in all that time; a card is drawn anew.
_TOLD = "(state <> 'pending' OR kind NOT IN ('card', 'run_root'))"
# A cause of one of our own words is an outcome; any other is a text of a model or a tool.
_OF_RUNS = (
    text("""
UPDATE agent_run SET task = :note, answer = CASE WHEN answer IS NOT NULL THEN :note END,
    cause = CASE WHEN cause ~ '^[a-z_]{1,40}$' THEN cause WHEN cause IS NOT NULL THEN :note END,
    progress = NULL, erased_at = clock_timestamp()
WHERE id = ANY(:ids)"""),
    text("UPDATE run_message SET text = :note WHERE run_id = ANY(:ids) AND text IS NOT NULL"),
    text("""
UPDATE tool_call SET raw_arguments = '{}', action = NULL, digest = NULL, held = NULL,
    answer = CASE WHEN answer IS NOT NULL THEN :note END
WHERE run_id = ANY(:ids)"""),
    text("""
UPDATE execution SET result = NULL, error = NULL, late_result = NULL
WHERE call_id IN (SELECT id FROM tool_call WHERE run_id = ANY(:ids))"""),
    text(f"DELETE FROM delivery WHERE run_id = ANY(:ids) AND {_TOLD}"),  # noqa: S608 - a constant
)
_OF_REQUESTS = (
    text("""
UPDATE request_revision SET action = '', arguments = NULL, facts = NULL, rationale = NULL, description = :note,
    context = jsonb_build_object('task', CAST(:note AS text)),
    changes = CASE WHEN changes IS NOT NULL THEN CAST('[]' AS jsonb) END, erased_at = now()
WHERE request_id = ANY(:ids) AND erased_at IS NULL"""),
    text("UPDATE execution SET result = NULL, error = NULL, late_result = NULL WHERE request_id = ANY(:ids)"),
    text(f"DELETE FROM delivery WHERE request_id = ANY(:ids) AND {_TOLD}"),  # noqa: S608 - a constant
)
_FORGET = """
DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE {old} ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED)
"""
_DELIVERIES = text(_FORGET.format(table="delivery", old=_OLD))
_NOTICES = text(_FORGET.format(table="notice", old=_OLD))

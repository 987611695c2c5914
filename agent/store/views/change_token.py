"""Tokens by which pages and streams notice that something changed."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import text

from agent.database.transaction import Connection


async def change_token(connection: Connection) -> str:
    """Changes with every transition, read from one end of an index; commits may come out of order."""
    found: str = (await connection.execute(_CHANGE_TOKEN)).scalar_one()
    return found


async def changed_subjects(connection: Connection, known: Mapping[str, str]) -> dict[str, str]:
    """Subjects (``request:<id>``, ``run:<id>``) whose token changed; runs change with their descendants."""
    runs = {name.removeprefix("run:"): token for name, token in known.items() if name.startswith("run:")}
    others = {name: token for name, token in known.items() if not name.startswith("run:")}
    parameters = {
        "subjects": list(others),
        "known": list(others.values()),
        "runs": list(runs),
        "runs_known": list(runs.values()),
    }
    rows = (await connection.execute(_CHANGED, parameters)).all()
    return {row.subject: row.token for row in rows}


async def recently_changed(connection: Connection) -> dict[str, str]:
    """Requests with an event in the last two seconds. A hint: slow transactions are missing."""
    return {row.subject: row.token for row in await connection.execute(_RECENTLY_CHANGED)}


_RECENTLY_CHANGED = text("""
SELECT subject, max(seq)::text AS token FROM audit_event
WHERE at > now() - interval '2 seconds' AND subject LIKE 'request:%' GROUP BY subject
""")
# Only changes: a few rows per poll, even with thousands of waiters.
_CHANGED = text("""
WITH RECURSIVE family AS (
    SELECT id AS watched, known, id FROM unnest(CAST(:runs AS uuid[]), CAST(:runs_known AS text[])) AS run (id, known)
    UNION ALL
    SELECT family.watched, family.known, child.id FROM family
    JOIN tool_call AS call ON call.run_id = family.id AND call.state = 'delegated'
    JOIN agent_run AS child ON child.parent_run_id = call.run_id AND child.parent_call_id = call.id
), standing AS (
    SELECT family.watched, family.known, string_agg(concat_ws('/',
        run.status, run.turn, run.inputs, run.heard, run.awaiting_calls, run.updated_at, (
        SELECT string_agg(calls.state::text || calls.n, ',' ORDER BY calls.state)
        FROM (SELECT state, count(*) AS n FROM tool_call WHERE run_id = run.id GROUP BY state) AS calls)),
        ' ' ORDER BY run.id) AS token
    FROM family JOIN agent_run AS run ON run.id = family.id GROUP BY family.watched, family.known
)
SELECT subject, head.seq::text AS token
FROM unnest(CAST(:subjects AS text[]), CAST(:known AS text[])) AS other (subject, known)
JOIN audit_head AS head USING (subject)
WHERE head.seq::text <> other.known
UNION ALL
SELECT 'run:' || watched, token FROM standing WHERE token <> known
""")
_CHANGE_TOKEN = text("""
SELECT coalesce(latest.at::text, '') || '/' || (
    SELECT count(*) FROM audit_event WHERE at > latest.at - interval '15 seconds')
FROM (SELECT max(at) AS at FROM audit_event) AS latest
""")

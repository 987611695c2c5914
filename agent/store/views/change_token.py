"""Whether anything has happened since somebody last looked."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import text

from agent.database.transaction import Connection
from agent.store.views.descendants import with_descendants


async def change_token(connection: Connection) -> str:
    """A token that is another one whenever a transition has been recorded; read from one end of an index.

    Transactions do not commit in the order of their clocks, so those just before the last one are counted too.
    """
    found: str = (await connection.execute(_PULSE)).scalar_one()
    return found


async def changed_subjects(connection: Connection, known: Mapping[str, str]) -> dict[str, str]:
    """Those of these (``request:<id>``, ``run:<id>``) that stand otherwise than by their known token, with their token.

    No state has the token of another, and none has the empty one. What does not exist is left out. A run stands
    otherwise when one below it does that it waits for.
    """
    runs = {name.removeprefix("run:"): token for name, token in known.items() if name.startswith("run:")}
    others = {name: token for name, token in known.items() if not name.startswith("run:")}
    told = {
        "subjects": list(others),
        "known": list(others.values()),
        "runs": list(runs),
        "runs_known": list(runs.values()),
    }
    rows = (await connection.execute(_CHANGED, told)).all()
    return {row.subject: row.token for row in rows}


async def recently_changed(connection: Connection) -> dict[str, str]:
    """Requests of which something was recorded in the last two seconds, with their tokens as `changed` tells them.

    A hint: a transaction that took longer than that to commit is not in it.
    """
    return {row.subject: row.token for row in await connection.execute(_TOUCHED)}


_TOUCHED = text("""
SELECT subject, max(seq)::text AS token FROM audit_event
WHERE at > now() - interval '2 seconds' AND subject LIKE 'request:%' GROUP BY subject
""")
# Only what has changed travels: with thousands of waiters that is a few rows a look.
_CHANGED = text(f"""
SELECT subject, h.seq::text AS token
FROM unnest(CAST(:subjects AS text[]), CAST(:known AS text[])) AS watched (subject, known)
JOIN audit_head AS h USING (subject)
WHERE h.seq::text <> known
UNION ALL
SELECT 'run:' || id, token
FROM unnest(CAST(:runs AS uuid[]), CAST(:runs_known AS text[])) AS watched (id, known)
JOIN (
    SELECT agent_run.id, string_agg(concat_ws('/',
        f.status, f.turn, f.inputs, f.heard, f.awaiting_calls, f.updated_at, (
        SELECT string_agg(c.state::text || c.n, ',' ORDER BY c.state)
        FROM (SELECT state, count(*) AS n FROM tool_call WHERE run_id = f.id GROUP BY state) AS c)), ' ' ORDER BY f.id)
           AS token
    FROM agent_run CROSS JOIN LATERAL ({with_descendants("agent_run")}) AS i JOIN agent_run AS f ON f.id = i.id
    WHERE agent_run.id = ANY(CAST(:runs AS uuid[])) GROUP BY agent_run.id) AS r USING (id)
WHERE token <> known
""")  # noqa: S608 - constants
_PULSE = text("""
SELECT coalesce(latest.at::text, '') || '/' || (
    SELECT count(*) FROM audit_event WHERE at > latest.at - interval '15 seconds')
FROM (SELECT max(at) AS at FROM audit_event) AS latest
""")

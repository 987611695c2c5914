"""Whether anything has happened since somebody last looked."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


async def pulse(connection: AsyncConnection) -> str:
    """A token that is another one whenever a transition has been recorded; read from one end of an index.

    Transactions do not commit in the order of their clocks, so those just before the last one are counted too.
    """
    found: str = (await connection.execute(_PULSE)).scalar_one()
    return found


async def tokens(connection: AsyncConnection, subjects: Sequence[str]) -> dict[str, str]:
    """How each of these (``request:<id>``, ``run:<id>``) stands, as a token that another state has not.

    What does not exist is left out.
    """
    runs = [subject.removeprefix("run:") for subject in subjects if subject.startswith("run:")]
    others = [subject for subject in subjects if not subject.startswith("run:")]
    rows = (await connection.execute(_TOKENS, {"subjects": others, "runs": runs})).all()
    return {row.subject: row.token for row in rows}


_TOKENS = text("""
SELECT subject, seq::text AS token FROM audit_head WHERE subject = ANY(:subjects)
UNION ALL
SELECT 'run:' || id, concat_ws('/', status, turn, inputs, heard, awaiting_calls, updated_at, (
    SELECT string_agg(c.state::text || c.n, ',' ORDER BY c.state)
    FROM (SELECT state, count(*) AS n FROM tool_call WHERE run_id = agent_run.id GROUP BY state) AS c))
FROM agent_run WHERE id = ANY(CAST(:runs AS uuid[]))
""")
_PULSE = text("""
SELECT coalesce(latest.at::text, '') || '/' || (
    SELECT count(*) FROM audit_event WHERE at > latest.at - interval '15 seconds')
FROM (SELECT max(at) AS at FROM audit_event) AS latest
""")

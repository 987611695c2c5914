"""What a week's message counts, and which weeks were told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text

from agent.database.transaction import Connection, fetch
from agent.domain.week import WorkNumbers
from agent.store.ids import lowest_since
from agent.store.rows import row_as


@dataclass(frozen=True, slots=True)
class CaughtCount:
    """Evaluations that this checkpoint caught, or that something beside the checkpoints decided over its head."""

    checkpoint_id: str | None
    ruled_by: str | None
    number: int
    denied: int


async def is_told(connection: Connection, starts: datetime) -> bool:
    """Whether the week was told of."""
    return bool(await fetch(connection, _TOLD, starts=starts))


async def take_week(connection: Connection, starts: datetime) -> bool:
    """False: already told."""
    return bool(await fetch(connection, _TAKE, starts=starts))


async def caught(
    connection: Connection, since: datetime, until: datetime, most: int | None
) -> Sequence[CaughtCount]:
    """Count the latest evaluations of this time, at most ``most``."""
    after = lowest_since(since)
    rows = await fetch(connection, _CAUGHT, after=after, since=since, until=until, most=most)
    return [row_as(CaughtCount, row) for row in rows]


async def work(connection: Connection, since: datetime, until: datetime) -> WorkNumbers:
    """Attempts that began in this time, and calls in doubt and grants as of now."""
    (row,) = await fetch(connection, _WORK, after=lowest_since(since), since=since, until=until)
    return row_as(WorkNumbers, row)


_TOLD = text("SELECT starts FROM told_week WHERE starts = :starts")
_TAKE = text("INSERT INTO told_week (starts) VALUES (:starts) ON CONFLICT DO NOTHING RETURNING starts")
_CAUGHT = text("""
WITH latest AS (
    SELECT checkpoint_id, ruled_by, verdict FROM judgement
    WHERE id > CAST(:after AS uuid) AND created_at >= :since AND created_at < :until
    ORDER BY id DESC LIMIT CAST(:most AS bigint)
)
SELECT checkpoint_id, ruled_by, count(*) AS number, count(*) FILTER (WHERE verdict = 'deny') AS denied
FROM latest GROUP BY checkpoint_id, ruled_by
ORDER BY denied DESC, checkpoint_id, ruled_by
""")
_WORK = text("""
SELECT e.attempts, e.doubtful, c.in_doubt, g.grants, g.ending
FROM (SELECT count(*) AS attempts, count(*) FILTER (WHERE status = 'in_doubt') AS doubtful FROM execution
      WHERE id > CAST(:after AS uuid) AND started_at >= :since AND started_at < :until
        AND NOT read_only) AS e,
     (SELECT count(*) AS in_doubt FROM tool_call WHERE state = 'in_doubt') AS c,
     (SELECT count(*) AS grants, count(*) FILTER (WHERE g.until < now.at + interval '7 days') AS ending
      FROM approval_grant AS g JOIN approval_request AS r ON r.id = g.request_id AND r.status = 'approved'
      CROSS JOIN (SELECT clock_timestamp() AS at) AS now
      WHERE g.ended_at IS NULL AND g.until > now.at AND g.uses < g.max_uses) AS g
""")

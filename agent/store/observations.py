"""What observed checkpoints would have asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.transaction import Connection, fetch
from agent.domain.observation import ObservedCount
from agent.store.ids import lowest_since
from agent.store.rows import row_as
from signoff.canonical import parse_canonical
from signoff.values import Action


@dataclass(frozen=True, slots=True)
class ObservedExample:
    """An action that an observed checkpoint would have asked about, and what happened instead."""

    checkpoint_id: str
    version: str
    at: datetime
    agent: str
    action: Action
    facts: dict[str, Any] | None
    verdict: str
    request_id: UUID | None


async def counts(
    connection: Connection, since: datetime, until: datetime | None = None
) -> list[ObservedCount]:
    """Counts by checkpoint id and version, the latest version last."""
    rows = await fetch(connection, _COUNTS, after=lowest_since(since), since=since, until=until)
    return [row_as(ObservedCount, row) for row in rows]


async def examples(connection: Connection, since: datetime, many: int) -> list[ObservedExample]:
    """The latest actions that each checkpoint would have asked about, unless erased."""
    rows = await fetch(connection, _EXAMPLES, after=lowest_since(since), since=since, many=many)
    return [_example(row) for row in rows]


def _example(row: Row[Any]) -> ObservedExample:
    facts = None if row.facts is None else parse_canonical(bytes(row.facts))
    return row_as(ObservedExample, row, action=Action.from_canonical(bytes(row.action)), facts=facts)


_COUNTS = text("""
SELECT o.checkpoint AS checkpoint_id, o.version, count(*) AS judged,
       count(*) FILTER (WHERE o.applies) AS asks,
       count(*) FILTER (WHERE o.applies AND j.verdict = 'ask') AS asked_anyway,
       count(*) FILTER (WHERE coalesce(j.ruled, j.verdict) = 'ask' AND o.verdict = 'run') AS frees,
       min(j.created_at) AS first, max(j.created_at) AS last
FROM judgement AS j
CROSS JOIN LATERAL jsonb_to_recordset(j.observed) AS o (checkpoint text, version text, applies boolean, verdict text)
WHERE j.observed IS NOT NULL AND j.id > CAST(:after AS uuid) AND j.created_at >= :since
  AND (CAST(:until AS timestamptz) IS NULL OR j.created_at < :until)
GROUP BY o.checkpoint, o.version
ORDER BY o.checkpoint, max(j.created_at)
""")
_EXAMPLES = text("""
SELECT f.checkpoint AS checkpoint_id, f.version, f.created_at AS at, f.agent, f.verdict, f.request_id,
       coalesce(f.action, v.action) AS action, coalesce(f.facts, v.facts) AS facts
FROM (SELECT j.*, o.checkpoint, o.version,
             row_number() OVER (PARTITION BY o.checkpoint, o.version ORDER BY j.id DESC) AS n
      FROM judgement AS j
      CROSS JOIN LATERAL jsonb_to_recordset(j.observed) AS o (checkpoint text, version text, applies boolean)
      WHERE j.observed IS NOT NULL AND o.applies AND j.id > CAST(:after AS uuid) AND j.created_at >= :since) AS f
LEFT JOIN request_revision AS v ON v.request_id = f.request_id AND v.n = coalesce(f.revision, 1)
WHERE f.n <= :many AND length(coalesce(f.action, v.action, '')) > 0
ORDER BY f.checkpoint, f.version, f.id DESC
""")

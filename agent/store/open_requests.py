"""Lock waiting requests about to end: overdue ones, and those of ended runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, fetch, query
from agent.store.outbox import Destination
from agent.store.rows import row_as


@dataclass(frozen=True, slots=True)
class OpenRequest:
    id: UUID
    run_id: UUID | None
    call_id: UUID
    agent: str
    tool: str
    destination: Destination
    revision: int
    digest: bytes
    approvers: tuple[str, ...]

    @property
    def channel_id(self) -> str:
        return self.destination.channel_id


@dataclass(frozen=True, slots=True)
class DueRequest(OpenRequest):
    """``escalates``: more reviewers and another window instead of the end."""

    escalates: bool
    escalate_to: tuple[str, ...]
    window: timedelta
    remind_at: tuple[float, ...]


async def lock_due(
    connection: Connection, limit: int, but: Collection[UUID] = (), only: UUID | None = None
) -> list[DueRequest]:
    """Lock overdue requests that nobody else holds, except ``but``; or ``only`` this one."""
    return [
        row_as(DueRequest, row)
        for row in await fetch(connection, _DUE, limit=limit, but=list(but), only=only)
    ]


async def lock_waiting(connection: Connection, runs: Sequence[UUID]) -> list[OpenRequest]:
    _, found = await query(connection, _TAKE_OPEN_OF_RUNS, _OPEN_OF_RUNS, runs=list(runs))
    return [row_as(OpenRequest, row) for row in found]


# A subquery reads the clock once and can bound the index scan; a volatile function would be called per waiting row.
_DUE = text("""
SELECT r.id, r.run_id, r.call_id, r.agent, v.tool, r.team_id, r.channel_id, r.revision, v.digest,
       coalesce(r.policy ->> 'on_timeout' = 'escalate' AND r.escalated_at IS NULL, false) AS escalates, r.approvers,
       r.policy -> 'escalate_to' AS escalate_to, make_interval(secs => (r.policy ->> 'timeout')::float) AS "window",
       r.policy -> 'remind_at' AS remind_at
FROM approval_request AS r
JOIN LATERAL (
    SELECT digest, tool FROM request_revision WHERE request_id = r.id AND n = r.revision OFFSET 0) AS v ON true
WHERE r.status = 'waiting' AND r.expires_at <= (SELECT clock_timestamp())
  AND r.id <> ALL(ARRAY(SELECT unnest(CAST(:but AS uuid[])))) AND (CAST(:only AS uuid) IS NULL OR r.id = :only)
ORDER BY r.expires_at LIMIT (SELECT CAST(:limit AS int)) FOR NO KEY UPDATE OF r SKIP LOCKED
""")
_TAKE_OPEN_OF_RUNS = text("""
SELECT 1 FROM approval_request WHERE run_id = ANY(:runs) AND status = 'waiting' ORDER BY id FOR NO KEY UPDATE
""")
_OPEN_OF_RUNS = text("""
SELECT r.id, r.run_id, r.call_id, r.agent, v.tool, r.team_id, r.channel_id, r.revision, r.approvers, v.digest
FROM approval_request AS r JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
WHERE r.run_id = ANY(:runs) AND r.status = 'waiting' ORDER BY r.id
""")

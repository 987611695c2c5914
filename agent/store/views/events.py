"""Events of requests and runs by audit time: only ids and outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from sqlalchemy import TextClause, text

from agent.database.transaction import Connection
from agent.domain.audit import AuditEvent, request_subject
from agent.store import audit

Key = tuple[datetime, str, int]
"""Time, subject and number."""


@dataclass(frozen=True, slots=True)
class Transition:
    """``outcome``: the state after the event, if it says."""

    subject: str
    seq: int
    at: datetime
    event: str
    outcome: str | None

    @property
    def key(self) -> Key:
        return (self.at, self.subject, self.seq)

    @property
    def about(self) -> Literal["request", "run"]:
        return "run" if self.subject.startswith("run:") else "request"

    @property
    def id(self) -> UUID:
        return UUID(self.subject.partition(":")[2])


async def transitions(
    connection: Connection,
    kinds: Sequence[str],
    since: datetime,
    *,
    after: Key | None = None,
    limit: int,
) -> list[Transition]:
    """Events after ``after``, oldest first; a slow commit may still add one."""
    return await _read(connection, _TRANSITIONS, kinds, since, after, limit)


async def run_transitions(
    connection: Connection,
    kinds: Sequence[str],
    run_id: UUID,
    since: datetime,
    *,
    after: Key | None = None,
    limit: int,
) -> list[Transition]:
    """Like ``transitions``, for one run and its requests."""
    return await _read(connection, _RUN_TRANSITIONS, kinds, since, after, limit, run=run_id)


async def _read(
    connection: Connection,
    statement: TextClause,
    kinds: Sequence[str],
    since: datetime,
    after: Key | None,
    limit: int,
    **more: UUID,
) -> list[Transition]:
    at, subject, seq = after or (since, "", 0)
    behind = {"since": since, "at": at, "subject": subject, "seq": seq}
    rows = await connection.execute(statement, {"kinds": list(kinds), "limit": limit, **behind, **more})
    return [Transition(row.subject, row.seq, row.at, row.event, row.outcome) for row in rows]


_TRANSITIONS = text("""
SELECT subject, seq, at, event, coalesce(detail ->> 'outcome', detail ->> 'status') AS outcome
FROM audit_event
WHERE at >= :since AND (at, subject, seq) > (:at, :subject, :seq)
  AND event = ANY(:kinds) AND split_part(subject, ':', 1) IN ('request', 'run')
ORDER BY at, subject, seq LIMIT :limit
""")
_RUN_TRANSITIONS = text("""
SELECT subject, seq, at, event, coalesce(detail ->> 'outcome', detail ->> 'status') AS outcome
FROM audit_event
WHERE subject = ANY (ARRAY(
        SELECT 'request:' || id FROM approval_request WHERE run_id = :run
        UNION ALL SELECT 'run:' || CAST(:run AS text)))
  AND at >= :since AND (at, subject, seq) > (:at, :subject, :seq) AND event = ANY(:kinds)
ORDER BY at, subject, seq LIMIT :limit
""")


async def request_events(connection: Connection, request_id: UUID) -> list[AuditEvent]:
    """Details hold ids and digests, never arguments."""
    return await audit.events(connection, request_subject(request_id))

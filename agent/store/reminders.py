"""Reminders and escalations that are due."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import Row, text

from agent.database.transaction import Connection, Transaction
from agent.domain.people import Exclusion
from agent.store import exclusions
from agent.store.outbox import Destination
from agent.store.rows import row_as
from signoff.values import Person


@dataclass(frozen=True, slots=True)
class DueReminder:
    """A waiting request, locked, whose next reminder is due, with the people to remind."""

    id: UUID
    destination: Destination
    approvers: tuple[str, ...]
    notify: tuple[str, ...]
    excluded: tuple[Exclusion, ...]
    expires_at: datetime
    window: timedelta
    remind_at: tuple[float, ...]


async def lock_due(
    connection: Connection, limit: int, but: Collection[UUID] = (), only: UUID | None = None
) -> list[DueReminder]:
    """Lock requests with a due reminder that nobody else holds, except ``but``; or ``only`` this one."""
    due = {"limit": limit, "but": list(but), "only": only}
    return [_due(row) for row in await connection.execute(_REMINDERS_DUE, due)]


async def voters(connection: Connection, request_ids: Sequence[UUID]) -> dict[UUID, set[Person]]:
    """Votes on the current revisions count."""
    found: dict[UUID, set[Person]] = {}
    for row in await connection.execute(_VOTERS, {"ids": list(request_ids)}):
        found.setdefault(row.request_id, set()).add(Person(row.team_id, row.user_id))
    return found


@dataclass(frozen=True, slots=True)
class Escalation:
    """The new reviewers and deadline of a request that nobody decided in time."""

    request_id: UUID
    approvers: tuple[str, ...]
    expires_at: datetime
    remind_next: datetime | None
    at: datetime


def escalate(tx: Transaction, escalations: Sequence[Escalation]) -> None:
    """Give waiting requests new reviewers and deadlines, and start their reminders again."""
    tx.add(
        _ESCALATE,
        ids=[e.request_id for e in escalations],
        approvers=[Jsonb(list(e.approvers)) for e in escalations],
        expires=[e.expires_at for e in escalations],
        reminders=[e.remind_next for e in escalations],
        ats=[e.at for e in escalations],
    )


@dataclass(frozen=True, slots=True)
class Reminded:
    """``reminded`` fractions of the window have passed."""

    request_id: UUID
    reminded: int
    remind_next: datetime | None


def mark_reminded(tx: Transaction, reminders: Sequence[Reminded]) -> None:
    """Store how many reminders each request has had and when the next is due; None: no more."""
    tx.add(
        _REMIND,
        ids=[r.request_id for r in reminders],
        counts=[r.reminded for r in reminders],
        next=[r.remind_next for r in reminders],
    )


def _due(row: Row[Any]) -> DueReminder:
    return row_as(DueReminder, row, excluded=exclusions.from_json(row.excluded))


_ESCALATE = text("""
UPDATE approval_request AS r
SET approvers = e.approvers, expires_at = e.expires, escalated_at = e.at, reminded = 0, remind_next = e.remind
FROM unnest(CAST(:ids AS uuid[]), CAST(:approvers AS jsonb[]), CAST(:expires AS timestamptz[]),
            CAST(:reminders AS timestamptz[]), CAST(:ats AS timestamptz[])) AS e (id, approvers, expires, remind, at)
WHERE r.id = e.id AND r.status = 'waiting'
""")
_REMIND = text("""
UPDATE approval_request AS r SET reminded = e.count, remind_next = e.next
FROM unnest(CAST(:ids AS uuid[]), CAST(:counts AS smallint[]), CAST(:next AS timestamptz[])) AS e (id, count, next)
WHERE r.id = e.id
""")
_REMINDERS_DUE = text("""
SELECT r.id, r.team_id, r.channel_id, r.expires_at, r.approvers, rule.content -> 'notify' AS notify,
       rule.content -> 'remind_at' AS remind_at,
       make_interval(secs => (rule.content ->> 'timeout')::float) AS "window", r.excluded
FROM approval_request AS r
JOIN LATERAL (SELECT content FROM rule WHERE digest = r.rule_digest OFFSET 0) AS rule ON true
WHERE r.status = 'waiting' AND r.remind_next <= (SELECT clock_timestamp())
  AND r.id <> ALL(CAST(:but AS uuid[])) AND (CAST(:only AS uuid) IS NULL OR r.id = :only)
ORDER BY r.remind_next LIMIT :limit FOR NO KEY UPDATE OF r SKIP LOCKED
""")
_VOTERS = text("""
SELECT v.request_id, v.team_id, v.user_id FROM vote AS v
JOIN approval_request AS r ON r.id = v.request_id AND r.revision = v.revision
WHERE v.request_id = ANY(:ids) AND v.superseded_by IS NULL
""")

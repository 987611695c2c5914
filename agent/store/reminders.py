"""What time does to a request that waits: reminders, and at the deadline more reviewers instead of an end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.types.json import Jsonb

from agent.database.transaction import Transaction
from agent.domain.audit import AuditKind
from agent.store import audit, outbox
from agent.store.audit import AuditEntry, ChainHead
from agent.store.outbox import Destination, OutboxMessage


@dataclass(frozen=True, slots=True)
class Escalation:
    """More reviewers, and the whole window again. The row is locked by the caller, and its chain's head read."""

    request_id: UUID
    destination: Destination
    added: tuple[str, ...]
    approvers: tuple[str, ...]
    expires_at: datetime
    remind_next: datetime | None
    head: ChainHead


def escalate(tx: Transaction, escalations: Sequence[Escalation]) -> None:
    """Let more people decide, record it, and tell them."""
    if not escalations:
        return
    tx.add(
        _ESCALATE,
        ids=[e.request_id for e in escalations],
        approvers=[Jsonb(list(e.approvers)) for e in escalations],
        expires=[e.expires_at for e in escalations],
        reminders=[e.remind_next for e in escalations],
        ats=[e.head.at for e in escalations],
    )
    entries = [
        AuditEntry(AuditKind.REQUEST_ESCALATED, audit.SYSTEM, {"added": list(e.added)}) for e in escalations
    ]
    audit.append_all(tx, [(e.head, entry) for e, entry in zip(escalations, entries, strict=True)])
    outgoing = [
        (outbox.card(e.destination, e.request_id), _line(e, "escalated", e.added, e.expires_at))
        for e in escalations
    ]
    outbox.enqueue(tx, [message for pair in outgoing for message in pair])


@dataclass(frozen=True, slots=True)
class Reminder:
    """A word to those who can still help. ``reminded`` counts the fractions of the window that have passed."""

    request_id: UUID
    destination: Destination
    people: tuple[str, ...]
    reminded: int
    remind_next: datetime | None
    expires_at: datetime
    head: ChainHead


def remind(tx: Transaction, reminders: Sequence[Reminder]) -> None:
    """Write down how far reminding has come, record it, and tell people; after the deadline nobody is told."""
    if not reminders:
        return
    tx.add(
        _REMIND,
        ids=[r.request_id for r in reminders],
        counts=[r.reminded for r in reminders],
        next=[r.remind_next for r in reminders],
    )
    timely = [r for r in reminders if r.head.at < r.expires_at]
    if not timely:
        return
    audit.append_all(
        tx,
        [
            (r.head, AuditEntry(AuditKind.REQUEST_REMINDED, audit.SYSTEM, {"reminder": r.reminded}))
            for r in timely
        ],
    )
    outbox.enqueue(tx, [_line(r, "reminder", r.people, r.expires_at) for r in timely])


def _line(about: Escalation | Reminder, line: str, people: Sequence[str], at: datetime) -> OutboxMessage:
    return outbox.request_line(
        about.destination, about.request_id, line, people=list(people), at=at.isoformat()
    )


_ESCALATE = """
UPDATE approval_request AS r
SET approvers = e.approvers, expires_at = e.expires, escalated_at = e.at, reminded = 0, remind_next = e.remind
FROM unnest(%(ids)s::uuid[], %(approvers)s::jsonb[], %(expires)s::timestamptz[], %(reminders)s::timestamptz[],
            %(ats)s::timestamptz[]) AS e (id, approvers, expires, remind, at)
WHERE r.id = e.id AND r.status = 'waiting'
"""
_REMIND = """
UPDATE approval_request AS r SET reminded = e.count, remind_next = e.next
FROM unnest(%(ids)s::uuid[], %(counts)s::smallint[], %(next)s::timestamptz[]) AS e (id, count, next)
WHERE r.id = e.id
"""

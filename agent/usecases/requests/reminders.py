"""Reviewers are reminded of waiting requests, and operators told where too few can still approve."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.audit import AuditKind, request_subject
from agent.domain.request_list import RequestLine
from agent.domain.request_view import RequestView
from agent.domain.short_ids import short_id
from agent.store import audit, outbox, reminders
from agent.store.audit import AuditEntry
from agent.store.outbox import Destination, OutboxMessage
from agent.store.reminders import DueReminder, Reminded
from agent.usecases.batches import FailedItems, isolate_failures
from signoff.values import Person


async def remind_due(db: Database, *, batch_size: int = 200) -> int:
    """One reminder covers all fractions (`remind_at`) that have passed."""
    return await isolate_failures(db, reminders.lock_due, _remind, size=batch_size, broken=_BROKEN)


_BROKEN = FailedItems("remind")


async def _remind(tx: Transaction, due: Sequence[DueReminder]) -> None:
    voters = await reminders.voters(tx, [row.id for row in due])
    heads = await audit.lock_heads(tx, [request_subject(row.id) for row in due])
    reminded = {row.id: _reminded(row, heads[request_subject(row.id)].at) for row in due}
    reminders.mark_reminded(tx, list(reminded.values()))
    timely = [row for row in due if heads[request_subject(row.id)].at < row.expires_at]
    entries = []
    for row in timely:
        detail = {"reminder": reminded[row.id].reminded}
        entry = AuditEntry(AuditKind.REQUEST_REMINDED, audit.SYSTEM, detail)
        entries.append((heads[request_subject(row.id)], entry))
    if entries:
        audit.append_all(tx, entries)
    outbox.enqueue(tx, [_line(row, voters.get(row.id, ())) for row in timely])


def _reminded(row: DueReminder, now: datetime) -> Reminded:
    opened = row.expires_at - row.window
    passed = sum(opened + row.window * fraction <= now for fraction in row.remind_at)
    later = row.remind_at[passed:]
    return Reminded(row.id, passed, opened + row.window * later[0] if later else None)


def _line(row: DueReminder, voters: Collection[Person]) -> OutboxMessage:
    facts = {"people": list(_remaining_reviewers(row, voters)), "at": row.expires_at.isoformat()}
    return outbox.request_line(row.destination, row.id, "reminder", None, **facts)


def _remaining_reviewers(row: DueReminder, voters: Collection[Person]) -> tuple[str, ...]:
    """Reviewers without a vote or exclusion; if a whole channel decides, its `notify` list."""
    named = [approver for approver in row.approvers if approver != "channel"] or row.notify
    done = {person.user_id for person in (*voters, *(each.person for each in row.excluded))}
    return tuple(name for name in named if name not in done)


MISSING = "missing_reviewers"
UNCOUNTED = "uncounted_reviewers"


async def report_missing_reviewers(
    db: Database,
    requests: Sequence[RequestView | RequestLine],
    admin: Destination,
    needed: int,
    line: str = MISSING,
) -> None:
    """Notify once of each request, by revision and set of reviewers.

    Several requests have the same reviewers: one message names the first, and how many more there are.
    """
    names = {f"{line} {each.id} {each.revision} {len(each.approvers)}": each for each in requests}
    async with db.transaction() as tx:
        told = await outbox.find_told(tx, list(names))
        if not (new := {name: each for name, each in names.items() if name not in told}):
            return
        name, first = min(new.items())
        message = outbox.direct(
            admin,
            first.id,
            None,
            line,
            key=name,  # the same for two processes that look at once and find the same requests
            needed=needed,
            channel=first.channel_id,
            request=short_id(first.id),
            text=first.description,
            more=len(new) - 1,
            told=list(new),
        )
        outbox.enqueue(tx, [message])

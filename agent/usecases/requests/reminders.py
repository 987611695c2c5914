"""Telling those who can still help that a request waits for them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.audit import request_subject
from agent.store import audit, reminders
from agent.store.audit import ChainHead
from agent.store.reminders import DueReminder, Reminder
from agent.usecases.batches import FailedItems, isolate_failures
from signoff.values import Person


async def remind_due(db: Database, *, batch_size: int = 200) -> int:
    """Remind where a fraction of the window (`remind_at`) has passed; any number of processes may do so at once.

    Fractions that passed while nobody looked are one reminder. One that cannot be written holds up no other.
    Returns how many requests were reminded of.
    """
    return await isolate_failures(
        db, reminders.lock_due, reminders.lock_due_one, _remind, size=batch_size, broken=_BROKEN
    )


_BROKEN = FailedItems("remind")


async def _remind(tx: Transaction, due: Sequence[DueReminder]) -> None:
    subjects = [request_subject(row.id) for row in due]
    voters = await reminders.voters(tx, [row.id for row in due])
    heads = await audit.lock_heads(tx, subjects)
    found = [
        _reminder(row, voters.get(row.id, ()), heads[subject])
        for row, subject in zip(due, subjects, strict=True)
    ]
    reminders.remind(tx, found)


def _reminder(row: DueReminder, voters: Collection[Person], head: ChainHead) -> Reminder:
    opened = row.expires_at - row.window
    passed = sum(opened + row.window * fraction <= head.at for fraction in row.remind_at)
    later = row.remind_at[passed:]
    return Reminder(
        request_id=row.id,
        destination=row.destination,
        people=_still_able(row, voters),
        reminded=passed,
        remind_next=opened + row.window * later[0] if later else None,
        expires_at=row.expires_at,
        head=head,
    )


def _still_able(row: DueReminder, voters: Collection[Person]) -> tuple[str, ...]:
    """The users and groups to mention: reviewers but those who have voted or are excluded.

    A channel's members are too many to mention; for them the checkpoint's `notify` stands in.
    """
    named = [approver for approver in row.approvers if approver != "channel"] or row.notify
    done = {person.user_id for person in (*voters, *(each.person for each in row.excluded))}
    return tuple(name for name in named if name not in done)

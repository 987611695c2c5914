"""Telling those who can still help that a request waits for them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Row

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.audit import request_subject
from agent.store import audit, reminders
from agent.store.audit import ChainHead
from agent.store.outbox import Destination
from agent.store.reminders import Reminder
from agent.usecases.batches import FailedItems, isolate_failures
from agent.usecases.requests.eligibility import editor, requester
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


async def _remind(tx: Transaction, due: Sequence[Row[Any]]) -> None:
    subjects = [request_subject(row.id) for row in due]
    voters = await reminders.voters(tx, [row.id for row in due])
    heads = await audit.lock_heads(tx, subjects)
    found = [
        _reminder(row, voters.get(row.id, ()), heads[subject])
        for row, subject in zip(due, subjects, strict=True)
    ]
    reminders.remind(tx, found)


def _reminder(row: Row[Any], voters: Collection[Person], head: ChainHead) -> Reminder:
    window = timedelta(seconds=row.seconds)
    opened = row.expires_at - window
    passed = sum(opened + window * fraction <= head.at for fraction in row.remind_at)
    later = row.remind_at[passed:]
    return Reminder(
        request_id=row.id,
        destination=Destination(row.team_id, row.channel_id),
        people=_still_able(row, voters),
        reminded=passed,
        remind_next=opened + window * later[0] if later else None,
        expires_at=row.expires_at,
        head=head,
    )


def _still_able(row: Row[Any], voters: Collection[Person]) -> tuple[str, ...]:
    """The users and groups to mention: reviewers but those who have voted or may not.

    A channel's members are too many to mention; for them the checkpoint's `notify` stands in.
    """
    named = [approver for approver in row.approvers if approver != "channel"] or row.notify
    done = {person.user_id for person in voters}
    if row.prevent_self_review and (asker := requester(row)) is not None:
        done.add(asker.user_id)
    if not row.editor_may_approve and (changed_by := editor(row)) is not None:
        done.add(changed_by.user_id)
    return tuple(name for name in named if name not in done)

"""Messages that Slack does not take: people are told elsewhere, and operators can retry."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.database.wakeups import Wakeup
from agent.domain.short_ids import short_id
from agent.store import outbox, undelivered, unseen, views
from agent.store.outbox import Destination
from agent.store.undelivered import UndeliveredMessage
from agent.usecases.due_messages import Closed, Dead, DueMessage, Unreached
from agent.usecases.requests.outcomes import named_approvers

MAX_NAMED = 5
"""Requests that a message about many names."""


async def report_trouble(db: Database, due: DueMessage, cause: str, admin: Destination | None) -> None:
    """Notify people elsewhere that messages to this destination fail and may need their help.

    ``admin`` is notified once per cause, a waiting request's run in its thread. Both again only after a message got
    through here, and ``admin`` only when nothing else waits for the same cause.
    """
    here = due.destination
    facts = {"channel": here.channel_id, "text": cause}
    async with db.transaction() as tx:
        news = await undelivered.note_trouble(tx, here.team_id, here.channel_id, cause, due.ids)
        outgoing = []
        if news and admin is not None and admin != here:
            outgoing.append(outbox.direct(admin, due.request_id, due.run_id, "trouble", **facts))
        if due.kind == "card" and due.request_id:
            run = await undelivered.run_to_inform(tx, here.team_id, here.channel_id, due.request_id)
            if run is not None:
                run_id, there = run
                outgoing.append(outbox.unreachable_line(there, run_id, due.request_id, **facts))
        outbox.enqueue(tx, outgoing)


async def report_plain_card(db: Database, due: DueMessage, code: str, admin: Destination | None) -> None:
    """Notify ``admin``, once per request, that Slack rejects its full card."""
    if admin is None or due.request_id is None:
        return
    key = f"plain_card:{due.request_id}"
    async with db.transaction() as tx:
        if not await outbox.was_enqueued(tx, due.request_id, key):
            facts = {"channel": due.destination.channel_id, "request": short_id(due.request_id), "text": code}
            outbox.enqueue(
                tx, [outbox.direct(admin, due.request_id, due.run_id, "plain_card", key=key, **facts)]
            )


async def give_up(tx: Transaction, dead: Dead) -> None:
    """Notify operators and the run's thread."""
    due, here = dead.due, dead.due.destination
    undelivered.mark_dead(tx, due.ids, dead.error, ambiguous=due.ambiguous)
    facts = {"channel": here.channel_id, "text": f"Slack refuses: {dead.error}"}
    outgoing = []
    if dead.admin is not None and dead.admin != here:
        about = {"request": short_id(due.request_id)} if due.request_id else {}
        outgoing.append(
            outbox.direct(dead.admin, due.request_id, due.run_id, "given_up", what=due.kind, **facts, **about)
        )
    if due.kind == "card" and due.request_id:
        run = await undelivered.run_thread(tx, due.request_id)
        if run is not None:
            run_id, there = run
            outgoing.append(outbox.unreachable_line(there, run_id, due.request_id, given_up=True, **facts))
    outbox.enqueue(tx, outgoing)


async def tell_outcome(tx: Transaction, closed: Closed) -> None:
    """In the thread of a card that Slack lets nobody change; once, however often that is tried."""
    due = closed.due
    undelivered.skip(tx, due.ids)
    view = await views.request_view(tx, due.request_id) if due.request_id else None
    if view is None or due.ts is None or not await undelivered.close_card(tx, due.destination, due.ts):
        return
    at = view.decided_at.isoformat() if view.decided_at else None
    facts = {"outcome": view.status.value, "at": at, **named_approvers(view.approved_by)}
    line = outbox.request_line(
        due.destination, view.id, "closed", view.decided_by, open=str(view.id), **facts
    )
    outbox.enqueue(tx, [line])


async def tell_operators_of_unseen(tx: Transaction, unreached: Unreached) -> None:
    """Once: the channel gets no message about these requests any more."""
    due = unreached.due
    undelivered.skip(tx, due.ids)
    found = dict.fromkeys(each.request_id for each in await unseen.unseen(tx, due.destination))
    if not found:
        return
    unseen.mark_told(tx, list(found))
    outbox.enqueue(
        tx,
        [
            outbox.direct(
                unreached.admin,
                None,
                None,
                "unseen",
                channel=due.destination.channel_id,
                text=unreached.why,
                count=len(found),
                requests=[str(each) for each in list(found)[:MAX_NAMED]],
            )
        ],
    )


async def list_dead(db: Database, limit: int) -> Sequence[UndeliveredMessage]:
    """Messages that no later one has replaced, latest first."""
    return await db.read(undelivered.list_dead, limit)


async def retry_dead(db: Database, delivery_id: UUID | None) -> int:
    """Send a given-up Slack message again, or all of them for None; return how many."""
    async with db.transaction() as tx:
        channels = await undelivered.revive(tx, delivery_id)
        tx.wake(*(Wakeup.channel(channel_id) for channel_id in set(channels)))
    return len(channels)

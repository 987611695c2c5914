"""Messages for Slack: one drain at a time sends to a channel, one message at a time.

Taking a message leases the channel; storing its outcome takes the next one in the same transaction, if the pace
allows. A card that changed meanwhile (``wanted`` grew) stays due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.groups import is_batch, is_group
from agent.domain.rules import CARDS_PER_MINUTE, GROUP_FROM
from agent.store import deliveries, floods, groups, outbox, undelivered
from agent.store import unseen as unseen_requests
from agent.store.deliveries import SentMessage
from agent.store.outbox import Destination
from agent.store.unseen import UnseenRequest
from agent.usecases.due_messages import Closed, Dead, DueMessage, Gone, Outcome, Sent, Unreached
from agent.usecases.undelivered import give_up, tell_operators_of_unseen, tell_outcome

log = structlog.get_logger(__name__)

LEASE_SECONDS = 7.0
"""Barely longer than a call to Slack (5 s): a dead drain blocks its channel for so long."""

LOCKED = 0.1
"""Seconds between polls while another transaction changes the message."""


LONGEST_PAUSE = 600.0
"""Seconds, whatever Slack asks for."""


@dataclass(frozen=True, slots=True)
class NextMessage:
    """The message to send now; or ``wait`` in seconds (``None``: nothing waits).

    ``rests``: nothing can be sent before, so polling earlier is useless.
    """

    due: DueMessage | None
    wait: float | None
    rests: bool = False


async def take_next(
    db: Database,
    destination: Destination,
    worker: str,
    *,
    served: Sequence[str] = (),
    after: Outcome | None = None,
    cards_per_minute: int = CARDS_PER_MINUTE,
    group_from: int = GROUP_FROM,
    redraw_after: float = 0.0,
) -> NextMessage:
    """Store the previous outcome and take the next message, unless another drain holds the destination.

    Ordered by priority, then age. Senders take turns: ``served`` lists earlier messages' senders (`DueMessage.turn`),
    the next one first; others go before them. Posts and updates have separate paces; small print of
    cards changes only ``redraw_after`` seconds after the pace allows it. A flood of cards is first folded; a gathered
    batch is first made a group, or its requests get cards of their own.
    """
    async with db.transaction() as tx:
        if after is not None and (nothing_now := await _store(tx, after)) is not None:
            return nothing_now
        take = partial(
            _take,
            tx,
            destination,
            worker,
            served=served,
            cards_per_minute=cards_per_minute,
            redraw_after=redraw_after,
        )
        while (found := await take()).due is not None and is_batch(found.due.agent or ""):
            await _group(tx, found.due, group_from, cards_per_minute)
        return found


async def store(db: Database, outcome: Outcome) -> None:
    """Store a delivery's outcome without taking the next message, when a drain stops."""
    async with db.transaction() as tx:
        await _store(tx, outcome)


async def _take(
    tx: Transaction,
    destination: Destination,
    worker: str,
    *,
    served: Sequence[str],
    cards_per_minute: int,
    redraw_after: float,
) -> NextMessage:
    take = partial(
        deliveries.take_next,
        tx,
        destination,
        worker,
        LEASE_SECONDS,
        served=served,
        cards_per_minute=cards_per_minute,
        redraw_after=redraw_after,
    )
    found = await take(fold=True)
    if found.is_new:
        await deliveries.add_destination(tx, destination)
        found = await take(fold=True)
    if found.is_flood:
        await _fold(tx, destination, cards_per_minute)
        found = await take(fold=False)
    if found.epoch is None:
        return NextMessage(None, LOCKED if found.kind else found.wait, found.rests)
    first = found.parts[0]
    due = DueMessage(
        destination=destination,
        epoch=found.epoch,
        ids=tuple(part.id for part in found.parts),
        kind=found.kind,
        request_id=found.request_id,
        run_id=found.run_id,
        agent=found.agent,
        turn=found.turn,
        bodies=tuple(part.body for part in found.parts),
        wanted=first.wanted,
        attempts=first.attempts,
        error=first.error,
        ambiguous=first.ambiguous,
        since=first.since,
        thread_ts=found.root_ts,
        ts=found.root_ts if found.kind in ("card", "run_root", "digest") else None,
        unseen=found.is_unseen,
        in_group=bool(found.in_group),
    )
    return NextMessage(due, None)


async def _fold(tx: Transaction, destination: Destination, cards_per_minute: int) -> None:
    left = await groups.leave(tx, destination)
    folded_into = await floods.fold(tx, destination, cards_per_minute)
    outbox.enqueue(tx, [outbox.digest(destination, name) for name in {*left, *folded_into}])
    await tx.flush()


async def _group(tx: Transaction, due: DueMessage, group_from: int, cards_per_minute: int) -> None:
    """In place of sending: a batch's name is no message."""
    here, batch = due.destination, due.agent or ""
    name = await groups.form(tx, here, batch, group_from=group_from, cards_per_minute=cards_per_minute)
    if name is not None:
        outbox.enqueue(tx, [outbox.digest(here, name)])
    else:
        await _release(tx, here, batch)
    undelivered.skip(tx, due.ids)
    await deliveries.release(tx, here, due.epoch)
    await tx.flush()


async def _release(tx: Transaction, destination: Destination, digest: str) -> None:
    """Cards of their own; where these are too many, they become part of the sender's flood."""
    released = await groups.release(tx, destination, digest)
    outbox.enqueue(tx, [outbox.card(destination, request_id, urgent=False) for request_id in released])


async def bound_pauses(db: Database) -> int:
    """Shorten waits beyond the longest pause: the clock may have gone back."""
    async with db.transaction() as tx:
        shortened = await undelivered.bound_destinations(tx, LONGEST_PAUSE, LEASE_SECONDS)
    async with db.transaction() as tx:
        return shortened + await undelivered.bound_messages(tx, LONGEST_PAUSE)


async def unfold(db: Database, *, cards_per_minute: int = CARDS_PER_MINUTE) -> int:
    """Enqueue cards for folded requests that now fit the limit per minute; return how many.

    Those of a group whose message was given up get theirs, too.
    """
    async with db.transaction() as tx:
        for there, name in await groups.given_up(tx):
            await _release(tx, there, name)
        found = await floods.unfold(tx, cards_per_minute)
        outbox.enqueue(tx, [outbox.card(there, request_id, urgent=False) for request_id, there, _ in found])
        digests = {(there, sender): outbox.digest(there, sender) for _, there, sender in found}
        outbox.enqueue(tx, list(digests.values()))
    return len(found)


async def _store(tx: Transaction, outcome: Outcome) -> NextMessage | None:
    """Skip the outcome if another drain took over. ``None``: more may be sent now."""
    due = outcome.due
    if isinstance(outcome, Sent):
        return await _store_sent(tx, outcome)
    if not await deliveries.release(tx, due.destination, due.epoch, **_rest(due, outcome.pause)):
        return NextMessage(None, None)
    if isinstance(outcome, Dead):
        await give_up(tx, outcome)
    elif isinstance(outcome, Unreached):
        await tell_operators_of_unseen(tx, outcome)
    elif isinstance(outcome, Closed):
        await tell_outcome(tx, outcome)
    elif isinstance(outcome, Gone):
        lost = due.ts or due.thread_ts
        undelivered.forget_message(tx, due.ids, due.destination, lost, again=outcome.again)
        if due.kind == "run_line" and due.run_id and outcome.again:
            outbox.enqueue(tx, [outbox.run_root(due.destination, due.run_id)])
    else:
        seconds = outcome.seconds
        ambiguous, refused = outcome.ambiguous, outcome.refused
        deliveries.postpone(tx, due.ids, seconds, outcome.error, ambiguous=ambiguous, refused=refused)
        if seconds and due.kind.endswith("_line"):
            deliveries.postpone_thread(tx, due.kind, due.request_id, due.run_id, seconds)
    await tx.flush()
    return None


async def _store_sent(tx: Transaction, outcome: Sent) -> NextMessage | None:
    due, ts, pause = outcome.due, outcome.ts, outcome.pause
    is_new = ts is not None and due.ts is None
    sent = SentMessage(
        due.ids,
        due.wanted,
        ts,
        card=due.request_id if due.kind == "card" and not outcome.unseen else None,
        new_root=due.run_id if is_new and due.kind == "run_root" else None,
        is_new=is_new,
    )
    stored = await deliveries.mark_sent(tx, due.destination, due.epoch, sent, **_rest(due, pause))
    if stored is None:
        return NextMessage(None, None)
    if outcome.unseen:
        unseen_requests.mark_told(tx, outcome.unseen)
    if stored.expired is not None:
        request_id, there = stored.expired
        outbox.enqueue(tx, [outbox.card(there, request_id)])  # its line can link to the card
    if due.agent is not None and is_group(due.agent):
        if ts is not None:
            groups.place(tx, due.agent, ts)
        else:  # none of it waited any more when it was to be posted
            await _release(tx, due.destination, due.agent)
    elif ts is not None and due.agent is not None and due.newer_digest is None:
        former = await floods.place_digest(tx, due.destination, due.agent, ts)
        if former is not None:
            outbox.enqueue(tx, [outbox.digest_pointer(due.destination, due.agent, former, ts)])
    look_now = tx.has_writes or (stored.more and stored.wait is None)
    await tx.flush()
    tx.after_commit(
        partial(
            log.info,
            "message sent",
            action="delivery.sent",
            kind=due.kind,
            request_id=str(due.request_id) if due.request_id else None,
            run_id=str(due.run_id) if due.run_id else None,
        )
    )
    return None if look_now else NextMessage(None, stored.wait if stored.more else None, stored.rests)


async def channels_due(db: Database, team_id: str) -> list[str]:
    """Return the channels of a workspace that have something to send and no drain, in random order."""
    return await db.read(deliveries.channels_due, team_id)


async def unseen(db: Database, destination: Destination) -> list[UnseenRequest]:
    """Return requests that expired before this channel saw a card or digest of them, oldest first."""
    return await db.read(unseen_requests.unseen, destination)


async def renew(db: Database, due: DueMessage) -> bool:
    """Outlast the next call to Slack. False: lease lost."""
    async with db.transaction() as tx:
        return await deliveries.renew(tx, due.destination, due.epoch, LEASE_SECONDS)


async def release(db: Database, due: DueMessage) -> None:
    """Give back the lease on a channel without an outcome, so that another drain can take it."""
    async with db.transaction() as tx:
        await deliveries.release(tx, due.destination, due.epoch)


def _rest(due: DueMessage, pause: float) -> dict[str, float]:
    """Slack limits posts by channel and updates by method, so neither waits for the other."""
    return {"updates" if due.ts is not None else "posts": min(pause, LONGEST_PAUSE)}

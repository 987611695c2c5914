"""Use cases on messages for Slack: take a destination's next message, store what became of it.

One drain per channel at a time, for one message: taking it leases the channel, and storing what became of it takes
the next one in the same transaction. A card that had to change again meanwhile (``wanted`` grew) stays due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.rules import CARDS_PER_MINUTE
from agent.store import deliveries, floods, outbox, undelivered
from agent.store.deliveries import SentMessage
from agent.store.outbox import Destination
from agent.usecases.due_messages import Dead, DueMessage, Gone, Outcome, Sent
from agent.usecases.undelivered import give_up

log = structlog.get_logger(__name__)

LEASE_SECONDS = 10.0
"""Longer than one call to Slack may take (8 s), and as short as that allows: a drain that dies holds up its channel."""

LOCKED = 0.1
"""Seconds until the next look when somebody is about to change what would be sent."""


LONGEST_PAUSE = 600.0
"""Seconds that a message or a channel waits at most, whatever Slack asks for."""


@dataclass(frozen=True, slots=True)
class Look:
    """What may be sent now; or ``wait``, the seconds until more may be sent (``None``: nothing waits for the pace).

    ``rests``: nothing may be sent before, so that looking earlier is in vain.
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
) -> Look:
    """Store what became of the message before, and take the next one, unless another drain speaks there.

    By priority, then age. Senders take turns: ``served`` are those of earlier messages (`DueMessage.turn`), the next
    to go first; all others go before them. Posts and changes each have a pace, and what may go now does not wait for
    what may not. A flood of cards is folded into a digest first.
    """
    async with db.transaction() as tx:
        if after is not None and not await _store(tx, after):
            return Look(None, None)
        return await _take(tx, destination, worker, served, cards_per_minute)


async def store(db: Database, outcome: Outcome) -> None:
    """Store what became of a message, and take no other."""
    async with db.transaction() as tx:
        await _store(tx, outcome)


async def _take(
    tx: Transaction, destination: Destination, worker: str, served: Sequence[str], cards_per_minute: int
) -> Look:
    take = partial(
        deliveries.take_next,
        tx,
        destination,
        worker,
        LEASE_SECONDS,
        served=served,
        cards_per_minute=cards_per_minute,
    )
    found = await take(fold=True)
    if found.is_new:
        await deliveries.add_destination(tx, destination)
        found = await take(fold=True)
    if found.is_flood:
        await _fold(tx, destination, cards_per_minute)
        found = await take(fold=False)
    if found.epoch is None:
        return Look(None, LOCKED if found.kind else found.wait, found.rests)
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
        thread_ts=found.root_ts,
        ts=found.root_ts if found.kind in ("card", "run_root", "digest") else None,
    )
    return Look(due, None)


async def _fold(tx: Transaction, destination: Destination, cards_per_minute: int) -> None:
    """Cards beyond what a channel can show are not posted; the digest of their sender is, and stays up to date."""
    senders = await floods.fold(tx, destination, cards_per_minute)
    outbox.enqueue(tx, [outbox.digest(destination, sender) for sender in senders])
    await tx.flush()


async def bound_pauses(db: Database) -> int:
    """Shorten what waits for longer than any pause lasts, as after a clock that went back. Returns how much."""
    async with db.transaction() as tx:
        shortened = await undelivered.bound_destinations(tx, LONGEST_PAUSE, LEASE_SECONDS)
    async with db.transaction() as tx:
        return shortened + await undelivered.bound_messages(tx, LONGEST_PAUSE)


async def unfold(db: Database, *, cards_per_minute: int = CARDS_PER_MINUTE) -> int:
    """Give folded requests that still wait their cards, as many as fit into the limit now. Returns how many."""
    async with db.transaction() as tx:
        found = await floods.unfold(tx, cards_per_minute)
        outbox.enqueue(tx, [outbox.card(there, request_id, urgent=False) for request_id, there, _ in found])
        digests = {(there, sender): outbox.digest(there, sender) for _, there, sender in found}
        outbox.enqueue(tx, list(digests.values()))
    return len(found)


async def _store(tx: Transaction, outcome: Outcome) -> bool:
    """False: nothing is left to be sent there, or another drain has taken over, and nothing is stored."""
    due = outcome.due
    if isinstance(outcome, Sent):
        return await _store_sent(tx, due, outcome.ts, outcome.pause)
    if not await deliveries.release(tx, due.destination, due.epoch, **_rest(due, outcome.pause)):
        return False
    if isinstance(outcome, Dead):
        await give_up(tx, outcome)
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
    return True


async def _store_sent(tx: Transaction, due: DueMessage, ts: str | None, pause: float) -> bool:
    is_new = ts is not None and due.ts is None
    sent = SentMessage(
        due.ids,
        due.wanted,
        ts,
        new_card=due.request_id if is_new and due.kind == "card" else None,
        new_root=due.run_id if is_new and due.kind == "run_root" else None,
    )
    stored = await deliveries.mark_sent(tx, due.destination, due.epoch, sent, **_rest(due, pause))
    if stored is None:
        return False
    if stored.expired is not None:
        request_id, there = stored.expired
        outbox.enqueue(tx, [outbox.card(there, request_id)])  # it can link to the new card now
    if ts is not None and due.agent is not None and due.newer_digest is None:
        former = await floods.place_digest(tx, due.destination, due.agent, ts)
        if former is not None:
            outbox.enqueue(tx, [outbox.digest_pointer(due.destination, due.agent, former, ts)])
    more = stored.more or tx.has_writes
    await tx.flush()
    tx.after_commit(
        partial(
            log.info,
            "told",
            action="delivery.sent",
            kind=due.kind,
            request_id=str(due.request_id) if due.request_id else None,
            run_id=str(due.run_id) if due.run_id else None,
        )
    )
    return more


async def channels_due(db: Database, team_id: str) -> list[str]:
    """The channels of this workspace where something may be told now, and where nobody is telling."""
    return await db.read(deliveries.channels_due, team_id)


async def renew(db: Database, due: DueMessage) -> bool:
    """Before a call to Slack, when time has passed: the lease lasts longer than the call. False: lease lost."""
    async with db.transaction() as tx:
        return await deliveries.renew(tx, due.destination, due.epoch, LEASE_SECONDS)


async def release(db: Database, due: DueMessage) -> None:
    """Give the destination back; what became of the message is not known."""
    async with db.transaction() as tx:
        await deliveries.release(tx, due.destination, due.epoch)


def _rest(due: DueMessage, pause: float) -> dict[str, float]:
    """Slack counts new messages by channel and changes by method, so one does not wait for the other."""
    return {"updates" if due.ts is not None else "posts": min(pause, LONGEST_PAUSE)}

"""The use cases on what people must be told: lease a destination, take what is due, mark it sent, postpone, give up.

One drain per channel at a time; its lease fences like a run's. What is sent is drawn from the facts at that
moment; a card that had to change again meanwhile (``wanted`` grew) stays due.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

import structlog

from agent.database.pools import Database
from agent.database.transaction import Connection
from agent.store import deliveries, floods, outbox
from agent.store.deliveries import ThreadLine
from agent.store.outbox import Destination

log = structlog.get_logger(__name__)

LEASE_SECONDS = 10.0
"""Longer than one call to Slack may take (8 s), and as short as that allows: a drain that dies holds up its channel."""

FLOOD = 10
"""New cards of one agent within a minute in one channel; what exceeds them is told in one digest card."""

MAX_TOGETHER = 3000
"""Characters of facts in one message of several lines; far below what Slack takes, after all wording."""


@dataclass(frozen=True, slots=True)
class DestinationLease:
    """The right to speak at a destination."""

    team_id: str
    channel_id: str
    epoch: int
    worker: str


@dataclass(frozen=True, slots=True)
class DueMessage:
    """One message to be sent. Lines of the same thread that wait together go out as one (``bodies``)."""

    ids: tuple[UUID, ...]
    kind: str
    request_id: UUID | None
    run_id: UUID | None
    agent: str | None  # of a digest
    bodies: tuple[Mapping[str, object], ...]
    wanted: int
    attempts: int
    error: str | None  # of the attempt before
    ambiguous: bool
    thread_ts: str | None  # root to reply to, for lines
    ts: str | None  # message to update, for cards and roots
    wait: float  # seconds until it may go out

    @property
    def id(self) -> UUID:
        """The first delivery's id: what the message's metadata carries."""
        return self.ids[0]


async def lease_destination(
    db: Database, team_id: str, channel_id: str, worker: str
) -> DestinationLease | None:
    """Take the destination, unless somebody else is speaking there."""
    async with db.transaction() as tx:
        epoch = await deliveries.lease_destination(tx, team_id, channel_id, worker, LEASE_SECONDS)
    return DestinationLease(team_id, channel_id, epoch, worker) if epoch is not None else None


async def release_destination(db: Database, lease: DestinationLease) -> None:
    """Give the destination back."""
    async with db.transaction() as tx:
        await deliveries.release_destination(tx, lease.team_id, lease.channel_id, lease.epoch)


async def channels_due(db: Database, team_id: str) -> list[str]:
    """The channels of this workspace where something may be told now, and where nobody is telling."""
    async with db.connection() as connection:
        return await deliveries.channels_due(connection, team_id)


async def next_due(db: Database, lease: DestinationLease) -> DueMessage | None:
    """What should be said next: by priority, then age; a line waits until its thread has a root.

    What may go out now comes before what has to wait for Slack's pace, and a change of a message that stands has
    a pace of its own. What would be a flood of cards is folded into a digest first.
    """
    destination = Destination(lease.team_id, lease.channel_id)
    async with db.connection() as connection:
        flood = await floods.is_flood(connection, destination, FLOOD)
        first = None if flood else await deliveries.next_pending(connection, lease.team_id, lease.channel_id)
        if not flood and (first is None or first.wait > 0):
            flood = await floods.has_stranded_lines(connection, destination)
    if flood:
        await _fold(db, destination)
        first = None
    async with db.connection() as connection:
        first = first or await deliveries.next_pending(connection, lease.team_id, lease.channel_id)
        if first is None:
            return None
        lines = [ThreadLine(first.id, first.body)]
        if first.kind.endswith("_line"):
            lines = _fitting(await deliveries.same_thread(connection, first))
    return DueMessage(
        ids=tuple(line.id for line in lines),
        kind=first.kind,
        request_id=first.request_id,
        run_id=first.run_id,
        agent=first.agent,
        bodies=tuple(line.body for line in lines),
        wanted=first.wanted,
        attempts=first.attempts,
        error=first.error,
        ambiguous=first.ambiguous,
        thread_ts=first.root_ts,
        ts=first.root_ts if first.kind in ("card", "run_root", "digest") else None,
        wait=first.wait,
    )


async def _fold(db: Database, destination: Destination) -> None:
    """Cards beyond ``FLOOD`` are not posted; the digest of their agent is, and stays up to date."""
    async with db.transaction() as tx:
        agents = await floods.fold(tx, destination, FLOOD)
        outbox.enqueue(tx, [outbox.digest(destination, agent) for agent in agents])


def _fitting(lines: list[ThreadLine]) -> list[ThreadLine]:
    """As many lines as go into one message; the first always does (its card is cut to fit)."""
    sizes = itertools.accumulate(len(json.dumps(line.body)) for line in lines)
    fitting = [line for line, size in zip(lines, sizes, strict=True) if size <= MAX_TOGETHER]
    return fitting or lines[:1]


async def renew(db: Database, lease: DestinationLease) -> bool:
    """Before a message is changed: the lease lasts longer than the call. False: lease lost."""
    async with db.transaction() as tx:
        return await _hold(tx, lease)


async def mark_sending(db: Database, lease: DestinationLease, due: DueMessage) -> bool:
    """Before a post goes out: from now on Slack may have it, until it is known otherwise. False: lease lost."""
    async with db.transaction() as tx:
        if not await _hold(tx, lease):
            return False
        deliveries.mark_sending(tx, due.ids)
    return True


async def mark_sent(
    db: Database, lease: DestinationLease, due: DueMessage, ts: str | None, *, pause: float
) -> bool:
    """It stands in the channel as ``ts``; the next of its like follows after ``pause`` seconds. False: lease lost."""
    async with db.transaction() as tx:
        if not await _hold(tx, lease, **_rest(due, pause)):
            return False
        if ts is not None and due.kind == "card" and due.request_id:
            deliveries.place_card(tx, due.request_id, ts)
            if due.ts is None and (old := await deliveries.expired_predecessor(tx, due.request_id)):
                expired, there = old
                outbox.enqueue(tx, [outbox.card(there, expired)])  # it can link to the new card now
        if ts is not None and due.kind == "run_root" and due.run_id:
            deliveries.place_run(tx, due.run_id, ts)
        if ts is not None and due.agent is not None:
            floods.place_digest(tx, Destination(lease.team_id, lease.channel_id), due.agent, ts)
        deliveries.mark_sent(tx, due.ids, due.wanted, ts)
        deliveries.clear_trouble(tx, lease.team_id, lease.channel_id)
    log.info(
        "told",
        action="delivery.sent",
        kind=due.kind,
        request_id=str(due.request_id) if due.request_id else None,
        run_id=str(due.run_id) if due.run_id else None,
    )
    return True


async def postpone(
    db: Database,
    lease: DestinationLease,
    due: DueMessage,
    seconds: float,
    *,
    error: str,
    ambiguous: bool = False,
    whole_destination: bool = False,
    pause: float = 0.0,
) -> bool:
    """Not now: try again after so many seconds. ``whole_outlet``: Slack asked to slow down, so all its like wait.

    ``pause``: the next of its like follows after so many seconds.
    ``ambiguous``: Slack may have taken it, so it is looked for before it is sent again; otherwise it has not.
    """
    async with db.transaction() as tx:
        pause, own = (seconds, 0.0) if whole_destination else (pause, seconds)
        if not await _hold(tx, lease, **_rest(due, pause)):
            return False
        deliveries.postpone(tx, due.ids, own, error, ambiguous=ambiguous)
        if own and due.kind.endswith("_line"):
            deliveries.postpone_thread(tx, due.kind, due.request_id, due.run_id, own)
    return True


async def report_trouble(
    db: Database, lease: DestinationLease, due: DueMessage, cause: str, admin: Destination | None
) -> None:
    """Something cannot be told here, and it may need people; whoever can be told elsewhere is told, once.

    ``admin`` (where operators read) once per cause, a waiting request's run in its thread; both anew only after
    something could be told here meanwhile, to ``admin`` not while anything else still waits for the same cause.
    """
    here = Destination(lease.team_id, lease.channel_id)
    facts = {"channel": lease.channel_id, "text": cause}
    async with db.transaction() as tx:
        news = await deliveries.note_trouble(tx, lease.team_id, lease.channel_id, cause, due.ids)
        outgoing = []
        if news and admin is not None and admin != here:
            outgoing.append(outbox.direct(admin, due.request_id, due.run_id, "trouble", **facts))
        if due.kind == "card" and due.request_id:
            run = await deliveries.run_to_inform(tx, lease.team_id, lease.channel_id, due.request_id)
            if run is not None:
                run_id, there = run
                outgoing.append(outbox.unreachable_line(there, run_id, due.request_id, **facts))
        outbox.enqueue(tx, outgoing)


async def mark_dead(
    db: Database, lease: DestinationLease, due: DueMessage, error: str, *, pause: float
) -> bool:
    """It cannot be told there; kept with the reason, for people to mend. The pause is as after a message."""
    async with db.transaction() as tx:
        if not await _hold(tx, lease, **_rest(due, pause)):
            return False
        deliveries.mark_dead(tx, due.ids, error)
    return True


def _rest(due: DueMessage, pause: float) -> dict[str, float]:
    """Slack counts new messages by channel and changes by method, so one does not wait for the other."""
    return {"updates" if due.ts is not None else "posts": pause}


async def _hold(
    connection: Connection, lease: DestinationLease, *, posts: float = 0.0, updates: float = 0.0
) -> bool:
    return await deliveries.renew(
        connection,
        lease.team_id,
        lease.channel_id,
        lease.epoch,
        LEASE_SECONDS,
        posts=posts,
        updates=updates,
    )

"""Statements on destinations and deliveries, for the drain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction, fetch
from agent.store import due_deliveries
from agent.store.outbox import Destination
from agent.store.rows import row_as

LINES_AT_ONCE = 10
"""Thread lines that go out as one message when they wait together."""


@dataclass(frozen=True, slots=True)
class PendingDelivery:
    """A delivery that is not sent yet."""

    id: UUID
    kind: str
    request_id: UUID | None
    run_id: UUID | None
    agent: str | None
    """Of a digest."""
    body: Mapping[str, object]
    wanted: int
    attempts: int
    error: str | None
    """Of the last attempt."""
    ambiguous: bool
    root_ts: str | None
    """Of the card, or of the thread's first message."""
    wait: float
    """Seconds until it may be sent."""


@dataclass(frozen=True, slots=True)
class ThreadLine:
    """A line that goes out together with others of its thread."""

    id: UUID
    body: Mapping[str, object]


async def lease_destination(
    connection: Connection, team_id: str, channel_id: str, worker: str, seconds: float
) -> int | None:
    """Lease the destination if it is free. Returns the epoch, which counts up."""
    parameters = {"team": team_id, "channel": channel_id, "worker": worker, "seconds": seconds}
    epoch: int | None = (await connection.execute(_TAKE, parameters)).scalar_one_or_none()
    return epoch


async def release_destination(connection: Connection, team_id: str, channel_id: str, epoch: int) -> None:
    """Give the lease back, unless another drain has taken over."""
    await connection.execute(_RELEASE, {"team": team_id, "channel": channel_id, "epoch": epoch})


async def channels_due(connection: Connection, team_id: str) -> list[str]:
    """Channels without a lease where a delivery may go out now, or something is left that a digest stands for."""
    rows = await fetch(connection, due_deliveries.CHANNELS_DUE, team=team_id)
    return [row.channel_id for row in rows]


async def renew(
    connection: Connection,
    team_id: str,
    channel_id: str,
    epoch: int,
    seconds: float,
    *,
    posts: float = 0.0,
    updates: float = 0.0,
) -> bool:
    """Extend the lease, and set how long nothing is posted or changed; False when another drain has taken over."""
    key = {"team": team_id, "channel": channel_id, "epoch": epoch, "seconds": seconds}
    return bool((await connection.execute(_HOLD, {**key, "posts": posts, "updates": updates})).rowcount)


async def next_pending(connection: Connection, team_id: str, channel_id: str) -> PendingDelivery | None:
    """The delivery to be sent next."""
    key = {"team": team_id, "channel": channel_id}
    rows = await fetch(connection, due_deliveries.NEXT, **key)
    if not rows:
        rows = await fetch(connection, due_deliveries.LATER, **key)
    elif rows[0].kind == "digest" or (rows[0].kind == "card" and rows[0].root_ts is None):
        fairest = await fetch(connection, due_deliveries.FAIREST, **key, first=rows[0].id)
        rows = fairest or rows
    return row_as(PendingDelivery, rows[0]) if rows else None


async def same_thread(connection: Connection, first: PendingDelivery) -> list[ThreadLine]:
    """The lines that may go out together with the first: same thread, as certain or uncertain as it."""
    parameters = {
        "first": first.id,
        "kind": first.kind,
        "request": first.request_id,
        "run": first.run_id,
        "ambiguous": first.ambiguous,
        "limit": LINES_AT_ONCE,
    }
    return [ThreadLine(*row) for row in await connection.execute(_SAME_THREAD, parameters)]


async def note_trouble(
    connection: Connection, team_id: str, channel_id: str, cause: str, ids: Sequence[UUID]
) -> bool:
    """Write down why these cannot be told there. Returns whether that is news: nothing else waits for this cause."""
    key = {"team": team_id, "channel": channel_id, "cause": cause, "ids": list(ids)}
    return bool((await connection.execute(_TROUBLE, key)).scalar_one_or_none())


async def run_to_inform(
    connection: Connection, team_id: str, channel_id: str, request_id: UUID
) -> tuple[UUID, Destination] | None:
    """The run of a request that waits, if its thread lies elsewhere and has not been told of this trouble."""
    key = {"team": team_id, "channel": channel_id, "request": request_id}
    row = (await connection.execute(_UNINFORMED, key)).one_or_none()
    return (row.id, Destination(row.team_id, row.channel_id)) if row else None


async def expired_predecessor(connection: Connection, request_id: UUID) -> tuple[UUID, Destination] | None:
    """The expired request that this one asks again, if it does."""
    row = (await connection.execute(_ASKED_BEFORE, {"id": request_id})).one_or_none()
    return (row.id, Destination(row.team_id, row.channel_id)) if row else None


def clear_trouble(tx: Transaction, team_id: str, channel_id: str) -> None:
    """Something could be told there: whatever troubled it is over."""
    tx.add(_WELL, team=team_id, channel=channel_id)


def place_card(tx: Transaction, request_id: UUID, ts: str) -> None:
    """The request's card is this message."""
    tx.add(_PLACE_CARD, id=request_id, ts=ts)


def place_run(tx: Transaction, run_id: UUID, ts: str) -> None:
    """The run's thread hangs below this message."""
    tx.add(_PLACE_RUN, id=run_id, ts=ts)


def mark_sending(tx: Transaction, ids: Sequence[UUID]) -> None:
    """Slack may have these from now on."""
    tx.add(_BEGIN, ids=list(ids))


def mark_sent(tx: Transaction, ids: Sequence[UUID], wanted: int, ts: str | None) -> None:
    """Sent, as far as it was wanted when it was drawn."""
    tx.add(_SENT, ids=list(ids), wanted=wanted, ts=ts)


def postpone(tx: Transaction, ids: Sequence[UUID], seconds: float, error: str, *, ambiguous: bool) -> None:
    """Not before then."""
    tx.add(_POSTPONE, ids=list(ids), seconds=seconds, error=error, ambiguous=ambiguous)


def postpone_thread(
    tx: Transaction, kind: str, request_id: UUID | None, run_id: UUID | None, seconds: float
) -> None:
    """What is said after it in its thread cannot go before it, and need not be looked at until then."""
    tx.add(_POSTPONE_THREAD, kind=kind, request=request_id, run=run_id, seconds=seconds)


def mark_dead(tx: Transaction, ids: Sequence[UUID], error: str) -> None:
    """Given up, with the reason."""
    tx.add(_DEAD, ids=list(ids), error=error)


_TAKE = text("""
INSERT INTO outlet AS o (team_id, channel_id, lease_epoch, lease_until, lease_worker)
VALUES (:team, :channel, 1, clock_timestamp() + make_interval(secs => :seconds), :worker)
ON CONFLICT (team_id, channel_id) DO UPDATE
SET lease_epoch = o.lease_epoch + 1, lease_until = excluded.lease_until, lease_worker = excluded.lease_worker
WHERE o.lease_until IS NULL OR o.lease_until <= clock_timestamp()
RETURNING lease_epoch
""")
_RELEASE = text("""
UPDATE outlet SET lease_until = NULL, lease_worker = NULL
WHERE team_id = :team AND channel_id = :channel AND lease_epoch = :epoch
""")
_HOLD = text("""
UPDATE outlet SET lease_until = clock_timestamp() + make_interval(secs => :seconds),
                  next_at = greatest(next_at, clock_timestamp() + make_interval(secs => :posts)),
                  next_update_at = greatest(next_update_at, clock_timestamp() + make_interval(secs => :updates))
WHERE team_id = :team AND channel_id = :channel AND lease_epoch = :epoch
""")
_TROUBLE = text("""
UPDATE outlet SET trouble = :cause, trouble_since = coalesce(trouble_since, clock_timestamp())
WHERE team_id = :team AND channel_id = :channel AND trouble IS DISTINCT FROM :cause
RETURNING NOT EXISTS (SELECT 1 FROM delivery WHERE team_id = :team AND channel_id = :channel AND state = 'pending'
                      AND error = :cause AND id <> ALL(:ids))
""")
_UNINFORMED = text("""
SELECT a.id, a.team_id, a.channel_id FROM approval_request AS r JOIN agent_run AS a ON a.id = r.run_id
WHERE r.id = :request AND r.status = 'waiting' AND a.channel_id IS NOT NULL
  AND (a.team_id, a.channel_id) <> (CAST(:team AS text), CAST(:channel AS text))
  AND NOT EXISTS (SELECT 1 FROM delivery AS d JOIN outlet AS o ON o.team_id = :team AND o.channel_id = :channel
                  WHERE d.run_id = a.id AND d.coalesce_key = 'unreachable:' || r.id
                    AND d.created_at >= o.trouble_since)
""")
_ASKED_BEFORE = text("""
SELECT o.id, o.team_id, o.channel_id FROM approval_request AS r JOIN tool_call AS c ON c.id = r.call_id
JOIN approval_request AS o ON o.call_id = c.repeats AND o.status = 'expired' WHERE r.id = :id
""")
_WELL = text("""
UPDATE outlet SET trouble = NULL, trouble_since = NULL
WHERE team_id = :team AND channel_id = :channel AND trouble IS NOT NULL
""")
_SAME_THREAD = text("""
SELECT id, body FROM delivery
WHERE state = 'pending' AND kind = CAST(:kind AS delivery_kind) AND id >= :first AND ambiguous = :ambiguous
  AND (request_id = CAST(:request AS uuid) OR run_id = CAST(:run AS uuid))
ORDER BY id LIMIT :limit
""")
_PLACE_CARD = text("""
UPDATE card_place SET ts = :ts WHERE request_id = :id AND surface = 'channel' AND ts IS NULL
""")
_PLACE_RUN = text("UPDATE agent_run SET thread_ts = :ts WHERE id = :id AND thread_ts IS NULL")
_BEGIN = text("UPDATE delivery SET ambiguous = true WHERE id = ANY(:ids) AND state = 'pending'")
_SENT = text("""
UPDATE delivery SET state = CASE WHEN wanted > :wanted THEN state ELSE 'sent'::delivery_state END,
       ts = :ts, sent_at = clock_timestamp(), attempts = 0, ambiguous = false, error = NULL
WHERE id = ANY(:ids) AND state = 'pending'
""")
_POSTPONE = text("""
UPDATE delivery SET not_before = clock_timestamp() + make_interval(secs => :seconds),
       attempts = least(attempts + 1, 1000), error = :error, ambiguous = :ambiguous
WHERE id = ANY(:ids) AND state = 'pending'
""")
_POSTPONE_THREAD = text("""
UPDATE delivery SET not_before = greatest(not_before, clock_timestamp() + make_interval(secs => :seconds))
WHERE state = 'pending' AND kind = CAST(:kind AS delivery_kind)
  AND (request_id = CAST(:request AS uuid) OR run_id = CAST(:run AS uuid))
""")
_DEAD = text("UPDATE delivery SET state = 'dead', error = :error WHERE id = ANY(:ids) AND state = 'pending'")

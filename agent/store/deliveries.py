"""Messages to Slack as they are sent: the lease of a channel, and the outcome of each message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction, fetch
from agent.store import due_deliveries
from agent.store.card_places import LOOK_AFTER
from agent.store.ids import highest_until
from agent.store.next_delivery import NEXT
from agent.store.outbox import Destination
from agent.store.rows import row_as

LINES_AT_ONCE = 20

MAX_TOGETHER = 3000
"""Characters of facts in a message of several lines; far below Slack's limit, wording included."""


@dataclass(frozen=True, slots=True)
class Part:
    """One outbox row of a message that is about to be sent; lines of one thread go together."""

    id: UUID
    body: Mapping[str, object]
    wanted: int
    attempts: int
    error: str | None
    ambiguous: bool
    since: float
    """When Slack could first have it, in epoch seconds."""


@dataclass(frozen=True, slots=True)
class NextDelivery:
    """What a channel's drain may send next, with its lease, or why and how long nothing may be sent."""

    epoch: int | None
    """Number of its lease; ``None``: not leased."""
    kind: str
    """Empty: nothing may be sent now."""
    request_id: UUID | None
    run_id: UUID | None
    agent: str | None
    """A digest's name: its sender (an agent, or `key:NAME`), a batch or a group."""
    turn: str
    """The sender, to pass in `served` from now on."""
    root_ts: str | None
    """Slack's id of the card, or of the thread's first message."""
    is_unseen: bool
    """A card that was never posted, of a request that expired."""
    in_group: bool
    """A line for the thread of a group's message."""
    parts: tuple[Part, ...]
    is_flood: bool
    is_new: bool
    """The destination has to be added first."""
    wait: float | None
    """Seconds until more may be sent; ``None``: nothing waits for the pace alone."""
    rests: bool
    """Not even new messages may be sent until then."""


async def take_next(
    connection: Connection,
    destination: Destination,
    worker: str,
    seconds: float,
    *,
    served: Sequence[str],
    cards_per_minute: int,
    redraw_after: float,
    fold: bool,
) -> NextDelivery:
    """Lease the destination and mark what will be posted; with ``fold``, only if no cards need folding."""
    [row] = await fetch(
        connection,
        NEXT,
        team=destination.team_id,
        channel=destination.channel_id,
        worker=worker,
        seconds=seconds,
        served=list(served),
        fold=fold,
        lines=LINES_AT_ONCE,
        size=MAX_TOGETHER,
        cards_per_minute=cards_per_minute,
        redraw_after=redraw_after,
    )
    parts = tuple(Part(**{**part, "id": UUID(part["id"])}) for part in row.parts or ())
    return row_as(NextDelivery, row, parts=parts)


async def add_destination(connection: Connection, destination: Destination) -> None:
    """Add the row whose lease lets one drain at a time send to a channel, if it is missing."""
    key = {"team": destination.team_id, "channel": destination.channel_id}
    await connection.execute(_ADD, key)


async def release(
    connection: Connection, destination: Destination, epoch: int, *, posts: float = 0.0, updates: float = 0.0
) -> bool:
    """Pause for these seconds. False: another drain took over."""
    key = {"team": destination.team_id, "channel": destination.channel_id, "epoch": epoch}
    return bool((await connection.execute(_RELEASE, {**key, "posts": posts, "updates": updates})).rowcount)


async def renew(connection: Connection, destination: Destination, epoch: int, seconds: float) -> bool:
    """False: another drain took over."""
    key = {"team": destination.team_id, "channel": destination.channel_id, "epoch": epoch, "seconds": seconds}
    return bool((await connection.execute(_RENEW, key)).rowcount)


async def channels_due(connection: Connection, team_id: str) -> list[str]:
    """Unleased channels with a delivery to send or an outdated digest."""
    rows = await fetch(connection, due_deliveries.CHANNELS_DUE, team=team_id)
    return [row.channel_id for row in rows]


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that Slack has accepted: the rows it covers, its `ts`, and whether it was posted or changed."""

    ids: Sequence[UUID]
    wanted: int
    ts: str | None
    card: UUID | None
    """The request whose card this is."""
    new_root: UUID | None
    """The run whose thread began with this message."""
    is_new: bool


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """``expired``: the expired request that the card asks again."""

    more: bool
    wait: float | None
    """Seconds for which the pace allows none; ``None``: some may go now."""
    rests: bool
    """Until then nothing may be sent."""
    expired: tuple[UUID, Destination] | None


async def mark_sent(
    connection: Connection,
    destination: Destination,
    epoch: int,
    sent: SentMessage,
    *,
    posts: float = 0.0,
    updates: float = 0.0,
) -> StoredMessage | None:
    """Release the lease and clear the channel's trouble. None: the lease was lost."""
    rows = await fetch(
        connection,
        _SENT,
        team=destination.team_id,
        channel=destination.channel_id,
        epoch=epoch,
        posts=posts,
        updates=updates,
        ids=list(sent.ids),
        wanted=sent.wanted,
        ts=sent.ts,
        card=sent.card if sent.is_new else None,
        changed=None if sent.is_new else sent.card,
        look=LOOK_AFTER,
        root=sent.new_root,
    )
    if not rows:
        return None
    [row] = rows
    expired = (row.id, Destination(row.team_id, row.channel_id)) if row.id else None
    return StoredMessage(row.more, row.wait, row.rests, expired)


def postpone(
    tx: Transaction, ids: Sequence[UUID], seconds: float, error: str, *, ambiguous: bool, refused: bool
) -> None:
    """What Slack refuses is given up once it and its request's deadline are a day old."""
    tx.add(_POSTPONE, ids=list(ids), seconds=seconds, error=error, ambiguous=ambiguous, refused=refused)


def postpone_thread(
    tx: Transaction, kind: str, request_id: UUID | None, run_id: UUID | None, seconds: float
) -> None:
    """Later lines cannot overtake this one, so polling them is useless."""
    tx.add(_POSTPONE_THREAD, kind=kind, request=request_id, run=run_id, seconds=seconds)


async def forget_sent(connection: Connection, before: datetime, after: UUID, limit: int) -> Sequence[UUID]:
    """Delete up to `limit` messages that are settled and older than this; return their ids, the last one last.

    Begins after this id, so that a batch does not read again what the ones before it left.
    """
    rows = await fetch(
        connection, _FORGET_SENT, before=before, last=highest_until(before), after=after, limit=limit
    )
    return [row.id for row in rows]


_ADD = text("INSERT INTO outlet (team_id, channel_id) VALUES (:team, :channel) ON CONFLICT DO NOTHING")
_RENEW = text("""
UPDATE outlet SET lease_until = clock_timestamp() + make_interval(secs => :seconds)
WHERE team_id = :team AND channel_id = :channel AND lease_epoch = :epoch
""")
_RELEASE = text("""
UPDATE outlet SET lease_until = NULL, lease_worker = NULL, lease_epoch = lease_epoch + 1,
                  next_at = greatest(next_at, clock_timestamp() + make_interval(secs => :posts)),
                  next_update_at = greatest(next_update_at, clock_timestamp() + make_interval(secs => :updates))
WHERE team_id = :team AND channel_id = :channel AND lease_epoch = :epoch
""")
# Deliveries last: a transaction that has locked the run may wait for them. `IS NOT FALSE`: see `next_delivery.NEXT`.
_SENT = text("""
WITH held AS (
    UPDATE outlet SET lease_until = NULL, lease_worker = NULL, lease_epoch = lease_epoch + 1,
                      trouble = NULL, trouble_since = NULL,
                      next_at = greatest(next_at, clock_timestamp() + make_interval(secs => :posts)),
                      next_update_at = greatest(next_update_at, clock_timestamp() + make_interval(secs => :updates))
    WHERE team_id = :team AND channel_id = :channel AND lease_epoch = :epoch
    RETURNING clock_timestamp() AS now, next_at, next_update_at
), card AS (
    UPDATE card_place SET ts = :ts, look_at = clock_timestamp() + make_interval(secs => :look)
    WHERE request_id = CAST(:card AS uuid) AND surface = 'channel' AND ts IS NULL AND EXISTS (SELECT FROM held)
    RETURNING nonce
), stands AS (
    UPDATE card_place SET look_at = clock_timestamp() + make_interval(secs => :look)
    WHERE request_id = CAST(:changed AS uuid) AND surface = 'channel' AND ts = :ts AND EXISTS (SELECT FROM held)
), root AS (
    UPDATE agent_run SET thread_ts = :ts
    WHERE id = CAST(:root AS uuid) AND thread_ts IS NULL AND EXISTS (SELECT FROM held) RETURNING id
), told AS (
    UPDATE delivery SET state = CASE WHEN wanted > :wanted THEN state ELSE CAST('sent' AS delivery_state) END,
           ts = CAST(:ts AS text), sent_at = clock_timestamp(), attempts = 0, ambiguous = false, error = NULL
    WHERE id = ANY(:ids) AND (state = 'pending') IS NOT FALSE AND EXISTS (SELECT FROM held)
      AND (SELECT count(*) FROM card) + (SELECT count(*) FROM root) >= 0
)
SELECT expired.id, expired.team_id, expired.channel_id, EXISTS (
    SELECT FROM delivery WHERE team_id = :team AND channel_id = :channel AND state = 'pending'
                           AND (id <> ALL (:ids) OR wanted > :wanted)) AS more,
    CAST(extract(epoch FROM CASE WHEN rests THEN least(next_at, next_update_at) WHEN next_at > now AND NOT EXISTS (
        SELECT FROM delivery WHERE team_id = :team AND channel_id = :channel AND state = 'pending'
                               AND kind IN ('card', 'run_root', 'digest') AND (id <> ALL (:ids) OR wanted > :wanted))
        THEN next_at END - now) AS float) AS wait, rests
FROM held CROSS JOIN LATERAL (SELECT next_at > now AND next_update_at > now AS rests) AS pace
LEFT JOIN (approval_request AS new JOIN tool_call AS c ON c.id = new.call_id
           JOIN approval_request AS expired ON expired.call_id = c.repeats AND expired.status = 'expired')
ON new.id = CAST(:card AS uuid)
""")
_POSTPONE = text("""
UPDATE delivery SET not_before = clock_timestamp() + make_interval(secs => :seconds),
       attempts = least(attempts + 1, 1000), error = :error, ambiguous = :ambiguous,
       state = CASE WHEN :refused AND EXISTS (
                   SELECT FROM approval_request AS r
                   WHERE r.id = delivery.request_id
                     AND greatest(r.expires_at, delivery.created_at) < clock_timestamp() - interval '1 day')
               THEN CAST('dead' AS delivery_state) ELSE state END
WHERE id = ANY(:ids) AND (state = 'pending') IS NOT FALSE
""")
_POSTPONE_THREAD = text("""
UPDATE delivery SET not_before = greatest(not_before, clock_timestamp() + make_interval(secs => :seconds))
WHERE (state = 'pending') IS NOT FALSE AND kind = CAST(:kind AS delivery_kind)
  AND (request_id = CAST(:request AS uuid) OR run_id = CAST(:run AS uuid))
""")
# Cards are drawn from facts and found by their place, so nothing reads the row of a message that Slack has. What stays
# until retention erases it:
# * a pending message;
# * a dead one, which operators list and retry, and what was sent under its key, which says that it need not be;
# * a message with a key of its own, which says that somebody was told: operators are told once of a request's missing
#   reviewers or plain card, and a run once of trouble with its card, however long that lasts.
_FORGET_SENT = text("""
WITH old AS MATERIALIZED (
    SELECT d.id FROM delivery AS d
    WHERE d.id > :after AND d.id < :last AND d.state IN ('sent', 'skipped') AND d.created_at < :before
      AND (d.coalesce_key IS NULL OR d.kind IN ('card', 'run_root', 'digest') AND d.coalesce_key NOT IN (
          SELECT dead.coalesce_key FROM delivery AS dead
          WHERE dead.state = 'dead' AND dead.coalesce_key IS NOT NULL))
    ORDER BY d.id LIMIT :limit FOR UPDATE OF d SKIP LOCKED
), gone AS (
    DELETE FROM delivery USING old WHERE delivery.id = old.id
)
SELECT id FROM old ORDER BY id
""")

"""Messages that Slack refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Text, bindparam, cast, exists, func, or_, select, text

from agent.database.transaction import Connection, Transaction, fetch
from agent.store.outbox import Destination
from agent.store.rows import row_as
from agent.store.tables import delivery


@dataclass(frozen=True, slots=True)
class UndeliveredMessage:
    """A message to Slack that was given up, with the error that Slack answered."""

    id: UUID
    kind: str
    channel_id: str
    request_id: UUID | None
    run_id: UUID | None
    error: str | None
    created_at: datetime


async def note_trouble(
    connection: Connection, team_id: str, channel_id: str, cause: str, ids: Sequence[UUID]
) -> bool:
    """True: the cause is new there and nothing else waits for it."""
    key = {"team": team_id, "channel": channel_id, "cause": cause, "ids": list(ids)}
    return bool((await connection.execute(_TROUBLE, key)).scalar_one_or_none())


async def run_to_inform(
    connection: Connection, team_id: str, channel_id: str, request_id: UUID
) -> tuple[UUID, Destination] | None:
    """The request's run, if its thread is elsewhere and not yet informed."""
    key = {"team": team_id, "channel": channel_id, "request": request_id}
    row = (await connection.execute(_UNNOTIFIED, key)).one_or_none()
    return (row.id, Destination(row.team_id, row.channel_id)) if row else None


async def run_thread(connection: Connection, request_id: UUID) -> tuple[UUID, Destination] | None:
    """Return a request's run and the channel of its thread, or None if there is no run or thread."""
    row = (await connection.execute(_RUN_THREAD, {"request": request_id})).one_or_none()
    return (row.id, Destination(row.team_id, row.channel_id)) if row else None


def mark_dead(tx: Transaction, ids: Sequence[UUID], error: str, *, ambiguous: bool) -> None:
    """``ambiguous``: Slack may have it from an earlier attempt."""
    tx.add(_DEAD, ids=list(ids), error=error, ambiguous=ambiguous)


def forget_message(
    tx: Transaction, ids: Sequence[UUID], destination: Destination, ts: str | None, *, again: bool
) -> None:
    """A deleted card, digest or root is posted ``again``, or left."""
    if again:
        key = {"team": destination.team_id, "channel": destination.channel_id, "ts": ts}
        tx.add(_FORGET_ROOT, **key)
        tx.add(_FORGET_CARD, **key)
        tx.add(_FORGET_DIGEST, **key)
        tx.add(_FORGET_GROUP, **key)
        tx.add(_POST_AGAIN, ids=list(ids))
    else:
        skip(tx, ids)


def skip(tx: Transaction, ids: Sequence[UUID]) -> None:
    """Mark pending messages to Slack as skipped, so that they are never sent."""
    tx.add(_SKIP, ids=list(ids))


async def close_card(connection: Connection, destination: Destination, ts: str) -> bool:
    """Remember that Slack lets nobody change this card. False: that is known, or it is no card."""
    key = {"team": destination.team_id, "channel": destination.channel_id, "ts": ts}
    return bool((await connection.execute(_CLOSE_CARD, key)).rowcount)


async def bound_destinations(connection: Connection, pause: float, lease: float) -> int:
    """Limit channels' pauses and leases, in seconds."""
    return (await connection.execute(_BOUND_DESTINATIONS, {"pause": pause, "lease": lease})).rowcount


async def bound_messages(connection: Connection, pause: float) -> int:
    """Limit messages' pauses, in seconds."""
    return (await connection.execute(_BOUND_MESSAGES, {"pause": pause})).rowcount


async def list_dead(connection: Connection, limit: int) -> list[UndeliveredMessage]:
    """Return up to `limit` messages to Slack that were given up, newest first."""
    return [row_as(UndeliveredMessage, row) for row in await fetch(connection, _LIST_DEAD, most=limit)]


async def count_dead(connection: Connection, most: int) -> int:
    """Return how many messages to Slack were given up, counted up to `most`."""
    [row] = await fetch(connection, _COUNT_DEAD, most=most)
    return int(row.number)


async def revive(connection: Connection, delivery_id: UUID | None) -> list[str]:
    """Revive one or all, except those due under another row. Returns their channels."""
    rows = (await connection.execute(_REVIVE, {"id": delivery_id})).all()
    return [row.channel_id for row in rows]


_TROUBLE = text("""
UPDATE outlet SET trouble = :cause, trouble_since = coalesce(trouble_since, clock_timestamp())
WHERE team_id = :team AND channel_id = :channel AND trouble IS DISTINCT FROM :cause
RETURNING NOT EXISTS (SELECT 1 FROM delivery WHERE team_id = :team AND channel_id = :channel AND state = 'pending'
                      AND error = :cause AND id <> ALL(:ids))
""")
_UNNOTIFIED = text("""
SELECT a.id, a.team_id, a.channel_id FROM approval_request AS r JOIN agent_run AS a ON a.id = r.run_id
WHERE r.id = :request AND r.status = 'waiting' AND a.channel_id IS NOT NULL
  AND (a.team_id, a.channel_id) <> (CAST(:team AS text), CAST(:channel AS text))
  AND NOT EXISTS (SELECT 1 FROM delivery AS d JOIN outlet AS o ON o.team_id = :team AND o.channel_id = :channel
                  WHERE d.run_id = a.id AND d.coalesce_key = 'unreachable:' || r.id
                    AND d.created_at >= o.trouble_since)
""")
_RUN_THREAD = text("""
SELECT a.id, a.team_id, a.channel_id FROM approval_request AS r JOIN agent_run AS a ON a.id = r.run_id
WHERE r.id = :request AND a.channel_id IS NOT NULL
""")
_DEAD = text("""
UPDATE delivery SET state = 'dead', error = :error, ambiguous = :ambiguous
WHERE id = ANY(:ids) AND (state = 'pending') IS NOT FALSE
""")
_SKIP = text(
    "UPDATE delivery SET state = 'skipped' WHERE id = ANY(:ids) AND (state = 'pending') IS NOT FALSE"
)
_POST_AGAIN = text("""
UPDATE delivery SET not_before = clock_timestamp(), ambiguous = false, error = NULL
WHERE id = ANY(:ids) AND (state = 'pending') IS NOT FALSE
""")
_FORGET_ROOT = text("""
UPDATE agent_run SET thread_ts = NULL WHERE team_id = :team AND channel_id = :channel AND thread_ts = :ts
""")
_FORGET_CARD = text("""
UPDATE card_place SET ts = NULL, closed = array_append(closed, ts)
WHERE team_id = :team AND channel_id = :channel AND ts = :ts AND surface = 'channel'
""")
_CLOSE_CARD = text("""
UPDATE card_place SET closed = array_append(closed, ts)
WHERE team_id = :team AND channel_id = :channel AND ts = :ts AND surface = 'channel' AND ts <> ALL(closed)
""")
_FORGET_DIGEST = text("""
DELETE FROM digest_card WHERE team_id = :team AND channel_id = :channel AND ts = :ts
""")
_FORGET_GROUP = text("""
UPDATE request_group SET ts = NULL WHERE team_id = :team AND channel_id = :channel AND ts = :ts
""")
_later = delivery.alias("later")
_superseded = exists().where(
    _later.c.coalesce_key == delivery.c.coalesce_key,
    or_(_later.c.request_id == delivery.c.request_id, _later.c.run_id == delivery.c.run_id),
    _later.c.id > delivery.c.id,
    _later.c.state.in_(["pending", "sent"]),
)
_dead = select(
    delivery.c.id,
    cast(delivery.c.kind, Text).label("kind"),
    delivery.c.channel_id,
    delivery.c.request_id,
    delivery.c.run_id,
    delivery.c.error,
    delivery.c.created_at,
).where(delivery.c.state == "dead", ~_superseded)
_LIST_DEAD = _dead.order_by(delivery.c.created_at.desc()).limit(bindparam("most"))
_COUNT_DEAD = select(func.count().label("number")).select_from(_dead.limit(bindparam("most")).subquery())
_REVIVE = text("""
UPDATE delivery AS d SET state = 'pending', attempts = 0, not_before = clock_timestamp()
WHERE d.state = 'dead' AND (CAST(:id AS uuid) IS NULL OR d.id = :id)
  AND (d.coalesce_key IS NULL OR NOT EXISTS (
      SELECT FROM delivery AS other
      WHERE other.coalesce_key = d.coalesce_key AND other.id <> d.id
        AND (other.state = 'pending' OR (other.state = 'dead' AND other.id > d.id))))
RETURNING d.channel_id
""")
# `least` ignores NULL: it would lease a channel that nobody holds.
_BOUND_DESTINATIONS = text("""
WITH far AS (
    SELECT o.team_id, o.channel_id, now + make_interval(secs => :pause) AS rest,
           now + make_interval(secs => :lease) AS held
    FROM outlet AS o CROSS JOIN (SELECT clock_timestamp() AS now) AS clock
    WHERE o.next_at > now + make_interval(secs => :pause) OR o.next_update_at > now + make_interval(secs => :pause)
       OR o.lease_until > now + make_interval(secs => :lease)
    ORDER BY o.team_id, o.channel_id FOR NO KEY UPDATE OF o SKIP LOCKED
)
UPDATE outlet AS o SET next_at = least(o.next_at, far.rest), next_update_at = least(o.next_update_at, far.rest),
                       lease_until = CASE WHEN o.lease_until > far.held THEN far.held ELSE o.lease_until END
FROM far WHERE o.team_id = far.team_id AND o.channel_id = far.channel_id
""")
_BOUND_MESSAGES = text("""
WITH far AS (
    SELECT d.id, now + make_interval(secs => :pause) AS rest
    FROM delivery AS d CROSS JOIN (SELECT clock_timestamp() AS now) AS clock
    WHERE d.state = 'pending' AND d.not_before > now + make_interval(secs => :pause)
    ORDER BY d.id FOR NO KEY UPDATE OF d SKIP LOCKED
)
UPDATE delivery AS d SET not_before = far.rest FROM far WHERE d.id = far.id
""")

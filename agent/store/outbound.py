"""Webhooks and e-mail notices are written with their event."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import Row, text

from agent.database.transaction import Connection, Transaction, fetch
from agent.database.wakeups import Wakeup
from agent.domain.outbound import MAIL, DeadNotice, OutboundEvent, OutboundMessage, Webhook, WebhookLine
from agent.store.ids import highest_until, new_id
from agent.store.rows import columns, row_as

# --- queueing ---------------------------------------------------------------------------------------------


def enqueue_opened(tx: Transaction, request_id: UUID, addresses: Iterable[str]) -> None:
    """Enqueue the notices of a new request, to each webhook that wants them and to these mail addresses."""
    _to_webhooks(tx, OutboundEvent.REQUEST_OPENED, requests=[request_id])
    recipients = list(addresses)
    if recipients:
        tx.add(
            _TO_MAILBOXES,
            ids=[new_id() for _ in recipients],
            recipients=recipients,
            event=OutboundEvent.REQUEST_OPENED.value,
            request=request_id,
        )
        tx.wake(Wakeup.notices(MAIL))


def enqueue_decided(tx: Transaction, request_ids: Sequence[UUID]) -> None:
    """Enqueue notices of these requests' decisions to each webhook that wants them."""
    _to_webhooks(tx, OutboundEvent.DECISION_MADE, requests=request_ids)


def enqueue_finished(tx: Transaction, run_id: UUID) -> None:
    """Enqueue notices of a run's end to each webhook that wants them."""
    _to_webhooks(tx, OutboundEvent.RUN_FINISHED, runs=[run_id])


def _to_webhooks(
    tx: Transaction, event: OutboundEvent, *, requests: Sequence[UUID] = (), runs: Sequence[UUID] = ()
) -> None:
    about = [(request_id, None) for request_id in requests] + [(None, run_id) for run_id in runs]
    rows = [
        {"id": new_id(), "event": event.value, "request_id": request_id, "run_id": run_id}
        for request_id, run_id in about
    ]
    tx.add_rows(_TO_WEBHOOKS, rows)


# --- sending ----------------------------------------------------------------------------------------------


async def lease_due(connection: Connection, target: str, limit: int, lease: float) -> list[OutboundMessage]:
    """``lease``: seconds. Counting each attempt fences the previous one."""
    parameters = {"webhook": None if target == MAIL else UUID(target), "limit": limit, "lease": lease}
    return [_notice(row) for row in (await connection.execute(_TAKE, parameters)).all()]


async def settle(
    connection: Connection,
    notice: OutboundMessage,
    state: str,
    *,
    seconds: float = 0.0,
    error: str | None = None,
) -> bool:
    """False: a later attempt exists, or the webhook was removed."""
    parameters = {
        "id": notice.id,
        "attempts": notice.attempts,
        "state": state,
        "seconds": seconds,
        "error": error,
    }
    return (await connection.execute(_SETTLE, parameters)).rowcount == 1


async def forget_sent(connection: Connection, before: datetime, after: UUID, limit: int) -> Sequence[UUID]:
    """Delete up to ``limit`` sent and skipped notices that are older than this; return their ids, the last one last."""
    rows = await fetch(
        connection, _FORGET_SENT, before=before, last=highest_until(before), after=after, limit=limit
    )
    return [row.id for row in rows]


# --- webhooks ---------------------------------------------------------------------------------------------


async def lock(connection: Connection, name: str) -> UUID | None:
    """Lock the webhook of this name until COMMIT and return its id; None if none has it or it was removed."""
    found: UUID | None = (await connection.execute(_LOCK, {"name": name})).scalar_one_or_none()
    return found


def insert(
    tx: Transaction, webhook: Webhook, events: Iterable[OutboundEvent], created_by: str, at: datetime
) -> None:
    """Add a webhook for these events; a name is free again once its webhook is removed."""
    tx.add(_INSERT, **columns(webhook), events=Jsonb(sorted(events)), created_by=created_by, at=at)


def remove(tx: Transaction, webhook_id: UUID, at: datetime) -> None:
    """Also removes pending notices."""
    tx.add(_REMOVE, id=webhook_id, at=at)
    tx.add(_LEAVE_OUT, id=webhook_id)


async def list_webhooks(connection: Connection) -> list[WebhookLine]:
    """Return the webhooks that are not removed, by name, with counts of their pending and dead notices."""
    return [row_as(WebhookLine, row) for row in (await connection.execute(_LIST)).all()]


async def list_dead(connection: Connection, limit: int, after: UUID | None) -> list[DeadNotice]:
    """Return up to `limit` notices that were given up, newest first, after the one of this id."""
    rows = await connection.execute(_DEAD, {"limit": limit, "after": after})
    return [row_as(DeadNotice, row) for row in rows]


async def revive(connection: Connection, notice_id: UUID | None) -> list[str]:
    """Make one dead notice, or all, pending again with no attempts, and return a target to wake for each."""
    return list((await connection.execute(_REVIVE, {"id": notice_id, "mail": MAIL})).scalars())


async def drop(connection: Connection, notice_id: UUID | None) -> int:
    """One that was given up, or all."""
    return (await connection.execute(_DROP, {"id": notice_id})).rowcount


def _notice(row: Row[Any]) -> OutboundMessage:
    webhook = Webhook(row.webhook_id, row.name, row.url, row.secret) if row.webhook_id else None
    return row_as(OutboundMessage, row, webhook=webhook)


# Only this statement knows the number of rows: each has the time of the id given and a random half of its own. The
# sender polls for them.
_TO_WEBHOOKS = text("""
INSERT INTO notice (id, kind, webhook_id, event, request_id, run_id)
SELECT CAST(left(CAST(f.id AS text), 19) || right(CAST(gen_random_uuid() AS text), 17) AS uuid), 'webhook', w.id,
       f.event, f.request_id, f.run_id
FROM webhook AS w, json_to_recordset(:rows) AS f (id uuid, event text, request_id uuid, run_id uuid)
WHERE w.removed_at IS NULL AND w.events @> jsonb_build_array(f.event)
""")
_TO_MAILBOXES = text("""
INSERT INTO notice (id, kind, recipient, event, request_id)
SELECT id, 'email', recipient, :event, :request
FROM unnest(CAST(:ids AS uuid[]), CAST(:recipients AS text[])) AS m (id, recipient)
""")
# Each part walks the one index with the order by both columns. Skips notices committed while their webhook was
# removed.
_TAKE = text("""
WITH of_webhook AS (
    SELECT n.id, w.removed_at IS NOT NULL AS removed FROM notice AS n JOIN webhook AS w ON w.id = n.webhook_id
    WHERE n.state = 'pending' AND n.next_at <= (SELECT clock_timestamp()) AND n.webhook_id = CAST(:webhook AS uuid)
    ORDER BY n.webhook_id, n.next_at LIMIT :limit FOR NO KEY UPDATE OF n SKIP LOCKED
), of_mail AS (
    SELECT n.id, false AS removed FROM notice AS n
    WHERE n.state = 'pending' AND n.next_at <= (SELECT clock_timestamp()) AND n.webhook_id IS NULL
      AND CAST(:webhook AS uuid) IS NULL
    ORDER BY n.webhook_id, n.next_at LIMIT :limit FOR NO KEY UPDATE OF n SKIP LOCKED
), mine AS (
    SELECT * FROM of_webhook UNION ALL SELECT * FROM of_mail
), taken AS (
    UPDATE notice AS n SET attempts = n.attempts + 1,
                           next_at = clock_timestamp() + make_interval(secs => :lease),
                           state = CASE WHEN mine.removed THEN 'skipped' ELSE n.state END
    FROM mine WHERE n.id = mine.id
    RETURNING n.id, n.webhook_id, n.recipient, n.event, n.request_id, n.run_id, n.attempts, n.created_at, mine.removed
)
SELECT taken.*, w.name, w.url, w.secret FROM taken LEFT JOIN webhook AS w ON w.id = taken.webhook_id
WHERE NOT taken.removed ORDER BY taken.created_at
""")
_SETTLE = text("""
UPDATE notice SET state = CAST(:state AS delivery_state), error = :error,
                  next_at = clock_timestamp() + make_interval(secs => :seconds),
                  sent_at = CASE WHEN :state = 'sent' THEN clock_timestamp() END
WHERE id = :id AND state = 'pending' AND attempts = :attempts
""")
# Dead ones stay: operators list and replay them.
_FORGET_SENT = text("""
WITH old AS MATERIALIZED (
    SELECT id FROM notice
    WHERE id > :after AND id < :last AND state IN ('sent', 'skipped') AND created_at < :before
    ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM notice USING old WHERE notice.id = old.id
)
SELECT id FROM old ORDER BY id
""")
_LOCK = text("SELECT id FROM webhook WHERE name = :name AND removed_at IS NULL FOR NO KEY UPDATE")
_INSERT = text("""
INSERT INTO webhook (id, name, url, secret, events, created_by, created_at)
VALUES (:id, :name, :url, :secret, :events, :created_by, :at)
""")
_REMOVE = text("UPDATE webhook SET removed_at = :at, secret = '' WHERE id = :id")
_LEAVE_OUT = text(
    "UPDATE notice SET state = 'skipped' WHERE webhook_id = :id AND state IN ('pending', 'dead')"
)
_LIST = text("""
SELECT w.name, w.url, w.events, w.created_by, w.created_at, n.pending, n.dead, n.last_sent_at
FROM webhook AS w
LEFT JOIN LATERAL (
    SELECT count(*) FILTER (WHERE state = 'pending') AS pending, count(*) FILTER (WHERE state = 'dead') AS dead,
           max(sent_at) AS last_sent_at
    FROM notice WHERE webhook_id = w.id
) AS n ON true
WHERE w.removed_at IS NULL ORDER BY w.name
""")
_DEAD = text("""
SELECT n.id, coalesce(w.name, n.recipient) AS target, n.event, n.request_id, n.run_id, n.attempts, n.error,
       n.created_at
FROM notice AS n LEFT JOIN webhook AS w ON w.id = n.webhook_id
WHERE n.state = 'dead'
  AND (CAST(:after AS uuid) IS NULL
       OR (n.created_at, n.id) < (SELECT created_at, id FROM notice WHERE id = CAST(:after AS uuid)))
ORDER BY n.created_at DESC, n.id DESC LIMIT :limit
""")
_REVIVE = text("""
UPDATE notice SET state = 'pending', attempts = 0, next_at = clock_timestamp()
WHERE state = 'dead' AND (CAST(:id AS uuid) IS NULL OR id = CAST(:id AS uuid))
RETURNING coalesce(webhook_id::text, :mail)
""")
_DROP = text("""
UPDATE notice SET state = 'skipped' WHERE state = 'dead' AND (CAST(:id AS uuid) IS NULL OR id = CAST(:id AS uuid))
""")

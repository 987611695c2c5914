"""Responses to calls with an `Idempotency-Key`, stored for a day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg.types.json import Jsonb
from sqlalchemy import text

from agent.database.transaction import Connection, Transaction
from agent.store.rows import row_as


async def reserve(
    connection: Connection, principal: str, key: str, fingerprint: bytes, patience: float
) -> bool:
    """False: answered, or begun within ``patience`` seconds."""
    parameters = {"principal": principal, "key": key, "fingerprint": fingerprint, "seconds": patience}
    return (await connection.execute(_RESERVE, parameters)).one_or_none() is not None


@dataclass(frozen=True, slots=True)
class FirstCall:
    """``status`` is ``None`` while in progress."""

    fingerprint: bytes
    status: int | None
    content: object
    headers: Mapping[str, str] | None


async def find(connection: Connection, principal: str, key: str) -> FirstCall | None:
    """Return the first call with this principal's `Idempotency-Key`, in progress or answered, or None."""
    row = (await connection.execute(_FIND, {"principal": principal, "key": key})).one_or_none()
    return row_as(FirstCall, row) if row else None


def store_response(
    tx: Transaction,
    principal: str,
    key: str,
    fingerprint: bytes,
    status: int,
    content: object,
    headers: Mapping[str, str],
) -> None:
    """Store the response to a call in progress, so that a repetition gets the same one."""
    body = Jsonb({"content": content, "headers": headers})
    tx.add(_KEEP, principal=principal, key=key, fingerprint=fingerprint, status=status, body=body)


def release(tx: Transaction, principal: str, key: str, fingerprint: bytes) -> None:
    """Give up a call in progress that got no response to store, so that its key can be used again."""
    tx.add(_FORGET, principal=principal, key=key, fingerprint=fingerprint)


async def delete_old(connection: Connection, limit: int) -> int:
    """Delete up to `limit` responses older than a day and return how many; locked ones are skipped."""
    return len((await connection.execute(_FORGET_OLD, {"limit": limit})).all())


_RESERVE = text("""
INSERT INTO http_reply (principal, key, fingerprint) VALUES (:principal, :key, :fingerprint)
ON CONFLICT (principal, key) DO UPDATE SET created_at = clock_timestamp()
WHERE http_reply.status IS NULL AND http_reply.fingerprint = excluded.fingerprint
  AND http_reply.created_at < clock_timestamp() - make_interval(secs => :seconds)
RETURNING key
""")
_FIND = text("""
SELECT fingerprint, status, body -> 'content' AS content, body -> 'headers' AS headers
FROM http_reply WHERE principal = :principal AND key = :key
""")
_KEEP = text("""
UPDATE http_reply SET status = :status, body = :body
WHERE principal = :principal AND key = :key AND fingerprint = :fingerprint AND status IS NULL
""")
_FORGET = text("""
DELETE FROM http_reply
WHERE principal = :principal AND key = :key AND fingerprint = :fingerprint AND status IS NULL
""")
_FORGET_OLD = text("""
DELETE FROM http_reply WHERE (principal, key) IN (
    SELECT principal, key FROM http_reply WHERE created_at < clock_timestamp() - interval '1 day'
    LIMIT :limit FOR UPDATE SKIP LOCKED)
RETURNING key
""")

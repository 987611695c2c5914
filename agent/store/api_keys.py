"""API keys, stored as SHA-256 (256 random bits need no slow hash) and counted per minute."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import text

from agent.database.transaction import Connection, Transaction, fetch
from agent.domain.api_keys import KeyLine, KeyTerms, Principal, Scope
from agent.store.rows import columns, row_as
from signoff.values import Person


@dataclass(frozen=True, slots=True)
class NewKey:
    """An API key to insert: only its hash and a prefix to recognize it by, never the key itself."""

    id: UUID
    name: str
    prefix: str
    hash: bytes
    scopes: frozenset[Scope]
    owner: Person | None
    agent: str | None
    per_minute: int
    created_by: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class KeyUse:
    """``calls`` in this minute include this one."""

    principal: Principal
    calls: int
    per_minute: int
    seconds_left: float


async def count_use(connection: Connection, digest: bytes) -> KeyUse | None:
    """``None`` if unknown, revoked or expired."""
    found = await fetch(connection, _USE, hash=digest)
    if not found:
        return None
    row = found[0]
    return row_as(KeyUse, row, principal=row_as(Principal, row, key_id=row.id, key=row.name))


def insert(tx: Transaction, new: NewKey, at: datetime) -> None:
    """Add an API key, with its scopes sorted; the caller holds the lock of its name's audit chain."""
    tx.add(_INSERT, **columns(new, scopes=Jsonb(sorted(new.scopes))), at=at)


async def lock(connection: Connection, name: str) -> KeyLine | None:
    """Lock an API key by name until COMMIT, revoked or not; None if no key has the name."""
    row = (await connection.execute(_LOCK, {"name": name})).one_or_none()
    return row_as(KeyLine, row) if row else None


def revoke(tx: Transaction, key_id: UUID, at: datetime) -> None:
    """Mark an API key as revoked; a key already revoked keeps its first time."""
    tx.add(_REVOKE, id=key_id, at=at)


async def terms(connection: Connection, key_id: UUID) -> KeyTerms:
    """The key must be locked."""
    return row_as(KeyTerms, (await fetch(connection, _TERMS, id=key_id))[0])


def rotate(tx: Transaction, key_id: UUID, prefix: str, terms: KeyTerms) -> None:
    """The old secret stays valid until its time has passed."""
    known = {"hash": terms.hash, "old_hash": terms.old_hash, "old_until": terms.old_until}
    tx.add(_ROTATE, id=key_id, prefix=prefix, **known)


async def list_keys(connection: Connection) -> list[KeyLine]:
    """All keys, oldest first, invalid ones included."""
    return [row_as(KeyLine, row) for row in (await connection.execute(_LIST)).all()]


async def forget_uses(connection: Connection) -> None:
    """Delete the per-minute counts of key uses that are older than five minutes."""
    await connection.execute(_FORGET)


# Each use waits for the previous commit on the key's row. The count need not survive a crash, so the commit skips the
# disk.
_USE = text("""
WITH known AS (
    SELECT id, name, scopes, owner_team_id, owner_user_id, agent, per_minute
    FROM api_key
    WHERE (hash = :hash OR (old_hash = :hash AND old_until > clock_timestamp()))
      AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())
), counted AS (
    INSERT INTO key_use (key_id, minute, calls)
    SELECT id, date_trunc('minute', clock_timestamp()), 1 FROM known
    ON CONFLICT (key_id, minute) DO UPDATE SET calls = key_use.calls + 1
    RETURNING calls
)
SELECT known.*, counted.calls, 60 - extract(second FROM clock_timestamp())::float AS seconds_left,
       set_config('synchronous_commit', 'off', true)
FROM known, counted
""")
_INSERT = text("""
INSERT INTO api_key (id, name, prefix, hash, scopes, owner_team_id, owner_user_id, agent, per_minute, created_by,
                     expires_at, created_at)
VALUES (:id, :name, :prefix, :hash, :scopes, :owner_team_id, :owner_user_id, :agent, :per_minute,
        :created_by, :expires_at, :at)
""")
_LOCK = text("""
SELECT id, name, prefix, scopes, owner_team_id, owner_user_id, agent, per_minute, created_at, expires_at,
       revoked_at
FROM api_key WHERE name = :name FOR NO KEY UPDATE
""")
_LIST = text("""
SELECT id, name, prefix, scopes, owner_team_id, owner_user_id, agent, per_minute, created_at, expires_at,
       revoked_at
FROM api_key ORDER BY id
""")
_TERMS = text("""
SELECT scopes, owner_team_id, owner_user_id, agent, expires_at, hash, old_hash, old_until FROM api_key WHERE id = :id
""")
_REVOKE = text("UPDATE api_key SET revoked_at = :at WHERE id = :id AND revoked_at IS NULL")
_ROTATE = text("""
UPDATE api_key SET prefix = :prefix, hash = :hash, old_hash = :old_hash, old_until = :old_until WHERE id = :id
""")
_FORGET = text("DELETE FROM key_use WHERE minute < clock_timestamp() - interval '5 minutes'")

"""Only a key's SHA-256 is stored. Wrong, revoked and expired keys look alike."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

from agent.database.pools import Database
from agent.database.transaction import Connection
from agent.domain.api_keys import KeyLine, KeyTerms, Principal, Scope
from agent.domain.audit import AuditKind
from agent.domain.errors import NotFound
from agent.store import api_keys, audit
from agent.store.api_keys import NewKey
from agent.store.audit import AuditEntry, ChainHead
from agent.store.ids import new_id
from agent.usecases import admin_notices
from signoff import formats
from signoff.errors import Conflict, SignoffError
from signoff.values import Person

START = "signoff_"
"""For secret scanners."""

SHAPE = re.compile(START + r"[A-Za-z0-9_-]{43}\Z")
SHOWN = len(START) + 4

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


class TooManyCalls(SignoffError):
    """``seconds`` until the key may call again."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"too many calls with this key; try again in {seconds:.0f} s")
        self.seconds = seconds


class KeyRejected(SignoffError):
    """The message says why."""


async def create(
    db: Database,
    name: str,
    scopes: Collection[Scope],
    *,
    by: str,
    owner: Person | None = None,
    agent: str | None = None,
    expires_at: datetime | None = None,
    per_minute: int = 600,
) -> str:
    """The key is never shown again. Raises KeyRejected and Conflict (name taken)."""
    granted = frozenset(scopes)
    _check(name, granted, owner, per_minute)
    secret = _new_secret()
    new = NewKey(
        new_id(), name, secret[:SHOWN], _digest(secret), granted, owner, agent, per_minute, by, expires_at
    )
    async with db.transaction() as tx:
        subject = _subject(name)
        await audit.create_head(tx, subject)
        head = await audit.lock_head(tx, subject)
        if await api_keys.lock(tx, name) is not None:
            raise Conflict(f"there is a key named {name} already (names of revoked keys are not used again)")
        api_keys.insert(tx, new, head.at)
        detail = {
            "scopes": sorted(granted),
            "owner": str(owner) if owner else None,
            "agent": agent,
            "expires": expires_at.isoformat() if expires_at else None,
            "terms": KeyTerms(granted, owner, agent, expires_at, new.hash, None, None).digest,
        }
        audit.append(tx, head, AuditEntry(AuditKind.KEY_CREATED, by, detail))
        rights = _rights(granted, owner, agent, expires_at)
        await admin_notices.notify(tx, "key_created", by=by, named=name, text=rights)
    return secret


async def rotate(db: Database, name: str, *, by: str, keep_old: timedelta = timedelta()) -> str:
    """The old secret stays valid for ``keep_old``. Raises NotFound."""
    secret = _new_secret()
    async with db.transaction() as tx:
        key, head = await _held(tx, name)
        before = await api_keys.terms(tx, key.id)
        kept = (before.hash, head.at + keep_old) if keep_old > timedelta() else (None, None)
        terms = replace(before, hash=_digest(secret), old_hash=kept[0], old_until=kept[1])
        api_keys.rotate(tx, key.id, secret[:SHOWN], terms)
        detail = {"old_valid_seconds": keep_old.total_seconds(), "terms": terms.digest}
        audit.append(tx, head, AuditEntry(AuditKind.KEY_ROTATED, by, detail))
        until = f"valid until {formats.moment(kept[1])}" if kept[1] else "no longer valid"
        await admin_notices.notify(tx, "key_rotated", by=by, named=name, text=until)
    return secret


async def revoke(db: Database, name: str, *, by: str) -> None:
    """Raises NotFound."""
    async with db.transaction() as tx:
        key, head = await _held(tx, name)
        api_keys.revoke(tx, key.id, head.at)
        audit.append(tx, head, AuditEntry(AuditKind.KEY_REVOKED, by, {}))
        rights = _rights(key.scopes, key.owner, key.agent, key.expires_at)
        await admin_notices.notify(tx, "key_revoked", by=by, named=name, text=rights)


async def list_keys(db: Database) -> list[KeyLine]:
    """Return all API keys, oldest first and including invalid ones, without their secrets."""
    return await db.read(api_keys.list_keys)


async def authenticate(db: Database, presented: str) -> Principal | None:
    """Counts the use; raises TooManyCalls."""
    if not SHAPE.match(presented):
        return None
    async with db.counting() as connection:
        use = await api_keys.count_use(connection, _digest(presented))
    if use is None:
        return None
    if use.calls > use.per_minute:
        raise TooManyCalls(max(1.0, use.seconds_left))
    return use.principal


async def forget_uses(db: Database) -> int:
    """Returns 0: the deleted counts are not worth reporting."""
    async with db.transaction() as tx:
        await api_keys.forget_uses(tx)
    return 0


def _check(name: str, scopes: frozenset[Scope], owner: Person | None, per_minute: int) -> None:
    if not _NAME.match(name):
        raise KeyRejected("a key's name has up to 64 letters, digits, dots, dashes and underscores")
    if not scopes:
        raise KeyRejected(f"name at least one scope of {', '.join(Scope)}")
    if {Scope.REQUEST, Scope.DECIDE} <= scopes:
        raise KeyRejected("a key that may request can never decide; make two keys")
    if Scope.ON_BEHALF in scopes and Scope.REQUEST not in scopes:
        raise KeyRejected("the scope on_behalf requires the scope request")
    if Scope.FACTS in scopes and Scope.REQUEST not in scopes:
        raise KeyRejected("the scope facts requires the scope request")
    if Scope.SESSIONS in scopes and Scope.REQUEST not in scopes:
        raise KeyRejected("the scope sessions requires the scope request")
    if Scope.DECIDE in scopes and owner is None:
        raise KeyRejected("a key with the scope decide needs an owner: it votes as that person")
    if per_minute < 1:
        raise KeyRejected("a key needs at least one call a minute")


def _rights(
    scopes: Collection[Scope], owner: Person | None, agent: str | None, expires_at: datetime | None
) -> str:
    lines = [
        ", ".join(sorted(scopes)),
        f"owner: {owner.user_id if owner else 'nobody'}",
        f"agent: {agent or 'any'}",
        f"expires: {formats.moment(expires_at) if expires_at else 'never'}",
    ]
    return "\n".join(lines)


def _new_secret() -> str:
    return START + secrets.token_urlsafe(32)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _subject(name: str) -> str:
    return f"key:{name}"


async def _held(connection: Connection, name: str) -> tuple[KeyLine, ChainHead]:
    key = await api_keys.lock(connection, name)
    if key is None or key.revoked_at is not None:
        raise NotFound(
            f"there is no key named {name}" if key is None else f"the key {name} is already revoked"
        )
    subject = _subject(name)
    return key, await audit.lock_head(connection, subject)

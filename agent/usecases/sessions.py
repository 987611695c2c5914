"""Secrets are stored as SHA-256; permissions are looked up on every request."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.audit import AuditKind
from agent.store import audit, sessions
from agent.store.sessions import Session
from signoff.values import Person

LINK_LIFE = timedelta(minutes=5)
SESSION_LIFE = timedelta(hours=12)

_SHAPE = re.compile(r"[A-Za-z0-9_-]{43}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class NewSession:
    """``secret`` goes into its cookie and nowhere else."""

    secret: str
    person: Person


async def create_link(db: Database, person: Person) -> str:
    """Create a sign-in link for a person that works once within 5 minutes; return its secret."""
    secret = secrets.token_urlsafe(32)
    async with db.transaction() as tx:
        sessions.delete_old(tx)
        sessions.insert_link(tx, _digest(secret), person, LINK_LIFE)
    return secret


async def link_owner(db: Database, secret: str) -> Person | None:
    """``None``: used, expired or unknown. Does not use the link up."""
    if not _SHAPE.match(secret):
        return None
    return await db.read(sessions.link_for, _digest(secret))


async def use_link(db: Database, secret: str) -> NewSession | None:
    """Use a link up and record the session; ``None`` as in ``link_owner``."""
    if not _SHAPE.match(secret):
        return None
    async with db.transaction() as tx:
        person = await sessions.use_link(tx, _digest(secret))
        return None if person is None else await _begin(tx, person, "link")


async def sign_in(db: Database, person: Person, via: Literal["openid"]) -> NewSession:
    """Record a session of a person authenticated by ``via``."""
    async with db.transaction() as tx:
        return await _begin(tx, person, via)


async def find(db: Database, secret: str) -> Session | None:
    """``None``: expired, ended or unknown."""
    if not _SHAPE.match(secret):
        return None
    return await db.read(sessions.find, _digest(secret))


async def sign_out(db: Database, secret: str) -> None:
    """End a web session and record that its person signed out; do nothing for an unknown secret."""
    if not _SHAPE.match(secret):
        return
    async with db.transaction() as tx:
        person = await sessions.end(tx, _digest(secret))
        if person is not None:
            await _record(tx, person, AuditKind.SIGNED_OUT, {})


async def _begin(tx: Transaction, person: Person, via: str) -> NewSession:
    secret = secrets.token_urlsafe(32)
    sessions.insert(tx, _digest(secret), person, via, SESSION_LIFE)
    await _record(tx, person, AuditKind.SIGNED_IN, {"via": via})
    return NewSession(secret, person)


async def _record(tx: Transaction, person: Person, kind: AuditKind, detail: dict[str, str]) -> None:
    subject = f"person:{person}"
    await audit.create_head(tx, subject)
    await audit.record(tx, subject, kind, audit.actor(person), detail)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()

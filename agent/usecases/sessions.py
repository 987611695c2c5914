"""The use cases on sessions of the pages: a personal link, signing in, being recognised, signing out.

Secrets are shown once, to whom they belong; what stays is their SHA-256. Who is signed in may do nothing by that
alone: their rights are looked up for every request.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from sqlalchemy.ext.asyncio import AsyncConnection

from agent.database.batch import Batch
from agent.database.pools import Database
from agent.domain.audit import AuditKind
from agent.store import audit, sessions
from agent.store.audit import AuditEntry
from agent.store.sessions import Session
from signoff.values import Person

__all__ = [
    "LINK_LIFE",
    "SESSION_LIFE",
    "NewSession",
    "Session",
    "create_link",
    "find",
    "link_owner",
    "sign_in",
    "sign_out",
    "use_link",
]

LINK_LIFE = timedelta(minutes=5)
SESSION_LIFE = timedelta(hours=12)

_SHAPE = re.compile(r"[A-Za-z0-9_-]{43}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session that has just begun; ``secret`` goes into its cookie and nowhere else."""

    secret: str
    person: Person


async def create_link(db: Database, person: Person) -> str:
    """The secret of a link that signs this person in once, within ``LINK_LIFE``."""
    secret = secrets.token_urlsafe(32)
    async with db.transaction() as connection:
        batch = Batch()
        sessions.delete_old(batch)
        sessions.insert_link(batch, _digest(secret), person, LINK_LIFE)
        await batch.send(connection)
    return secret


async def link_owner(db: Database, secret: str) -> Person | None:
    """Whom a link would sign in; ``None``: used up, run out, or none of ours. Changes nothing."""
    if not _SHAPE.match(secret):
        return None
    async with db.connection() as connection:
        return await sessions.link_for(connection, _digest(secret))


async def use_link(db: Database, secret: str) -> NewSession | None:
    """Use a link up and begin a session (recorded); ``None`` as `invited` says."""
    if not _SHAPE.match(secret):
        return None
    async with db.transaction() as connection:
        person = await sessions.use_link(connection, _digest(secret))
        return None if person is None else await _begin(connection, person, "link")


async def sign_in(db: Database, person: Person, via: Literal["openid"]) -> NewSession:
    """Begin a session (recorded) for somebody whom ``via`` vouches for."""
    async with db.transaction() as connection:
        return await _begin(connection, person, via)


async def find(db: Database, secret: str) -> Session | None:
    """The session of a cookie; ``None``: over, ended, or none of ours."""
    if not _SHAPE.match(secret):
        return None
    async with db.connection() as connection:
        return await sessions.find(connection, _digest(secret))


async def sign_out(db: Database, secret: str) -> None:
    """End a session (recorded). One that is over already stays as it is."""
    if not _SHAPE.match(secret):
        return
    async with db.transaction() as connection:
        person = await sessions.end(connection, _digest(secret))
        if person is not None:
            await _record(connection, Batch(), person, AuditKind.SIGNED_OUT, {})


async def _begin(connection: AsyncConnection, person: Person, via: str) -> NewSession:
    secret = secrets.token_urlsafe(32)
    batch = Batch()
    sessions.insert(batch, _digest(secret), person, via, SESSION_LIFE)
    await _record(connection, batch, person, AuditKind.SIGNED_IN, {"via": via})
    return NewSession(secret, person)


async def _record(
    connection: AsyncConnection, batch: Batch, person: Person, kind: AuditKind, detail: dict[str, str]
) -> None:
    """Into this person's own chain, with what else is in the batch."""
    subject = f"person:{person}"
    await audit.create_head(connection, subject)
    head = (await audit.lock_heads(connection, [subject]))[subject]
    audit.append(batch, head, AuditEntry(kind, audit.actor(person), detail))
    await batch.send(connection)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()

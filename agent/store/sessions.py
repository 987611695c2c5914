"""Inbox sessions and sign-in links, stored as SHA-256 of 256 random bits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction, fetch
from signoff.values import Person


@dataclass(frozen=True, slots=True)
class Session:
    """``via``: ``link`` or ``openid``."""

    person: Person
    via: str
    expires_at: datetime


def insert_link(tx: Transaction, digest: bytes, person: Person, life: timedelta) -> None:
    """Add a sign-in link of a person by the digest of its secret; `life` starts now."""
    tx.add(_INSERT_LINK, hash=digest, team=person.team_id, user=person.user_id, seconds=life.total_seconds())


async def link_for(connection: Connection, digest: bytes) -> Person | None:
    """Return the person of a sign-in link, or None if it is unknown, used or expired; does not use it."""
    row = (await connection.execute(_LINK, {"hash": digest})).one_or_none()
    return None if row is None else Person(row.team_id, row.user_id)


async def use_link(connection: Connection, digest: bytes) -> Person | None:
    """Of concurrent uses one succeeds."""
    row = (await connection.execute(_USE_LINK, {"hash": digest})).one_or_none()
    return None if row is None else Person(row.team_id, row.user_id)


def insert(tx: Transaction, digest: bytes, person: Person, via: str, life: timedelta) -> None:
    """Add an inbox session by the digest of its secret; `via` says how the person signed in."""
    tx.add(
        _INSERT,
        hash=digest,
        team=person.team_id,
        user=person.user_id,
        via=via,
        seconds=life.total_seconds(),
    )


async def find(connection: Connection, digest: bytes) -> Session | None:
    """Return the inbox session of this digest, or None if it is unknown, ended or expired."""
    found = await fetch(connection, _FIND, hash=digest)
    return (
        Session(Person(found[0].team_id, found[0].user_id), found[0].via, found[0].expires_at)
        if found
        else None
    )


async def end(connection: Connection, digest: bytes) -> Person | None:
    """End an inbox session and return its person, or None if it was not live."""
    row = (await connection.execute(_END, {"hash": digest})).one_or_none()
    return None if row is None else Person(row.team_id, row.user_id)


def delete_old(tx: Transaction) -> None:
    """Delete sessions and links a day after expiry; the audit log keeps who was signed in."""
    tx.add(_FORGET_LINKS)
    tx.add(_FORGET)


_INSERT_LINK = text("""
INSERT INTO sign_in_link (hash, team_id, user_id, expires_at)
VALUES (:hash, :team, :user, clock_timestamp() + make_interval(secs => :seconds))
""")
_LINK = text("""
SELECT team_id, user_id FROM sign_in_link
WHERE hash = :hash AND used_at IS NULL AND expires_at > clock_timestamp()
""")
_USE_LINK = text("""
UPDATE sign_in_link SET used_at = clock_timestamp()
WHERE hash = :hash AND used_at IS NULL AND expires_at > clock_timestamp()
RETURNING team_id, user_id
""")
_INSERT = text("""
INSERT INTO web_session (hash, team_id, user_id, via, expires_at)
VALUES (:hash, :team, :user, :via, clock_timestamp() + make_interval(secs => :seconds))
""")
_FIND = text("""
SELECT team_id, user_id, via, expires_at FROM web_session
WHERE hash = :hash AND ended_at IS NULL AND expires_at > clock_timestamp()
""")
_END = text("""
UPDATE web_session SET ended_at = clock_timestamp()
WHERE hash = :hash AND ended_at IS NULL AND expires_at > clock_timestamp()
RETURNING team_id, user_id
""")
_FORGET_LINKS = text("DELETE FROM sign_in_link WHERE expires_at < clock_timestamp() - interval '1 day'")
_FORGET = text("DELETE FROM web_session WHERE expires_at < clock_timestamp() - interval '1 day'")

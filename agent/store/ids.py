"""Ids are uuid7 (RFC 9562) made here: they sort by creation and are known before the INSERT."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from hashlib import sha256
from uuid import UUID

from uuid_utils.compat import uuid7

SKEW = timedelta(hours=1)
"""Between a process's clock, which ids begin with, and the database's, which decides."""


def new_id() -> UUID:
    """Return a new uuid7, which sorts by its time of creation on this machine's clock."""
    return uuid7()


def id_at(at: datetime) -> UUID:
    """The lowest id of that time: ids begin with the process's clock in ms (RFC 9562, 5.7)."""
    return UUID(int=max(0, int(at.timestamp() * 1000)) << 80)


def lowest_since(at: datetime) -> UUID:
    """A lower bound of the ids that any process has made since this time of the database."""
    return id_at(at - SKEW)


def highest_until(at: datetime) -> UUID:
    """An upper bound of the ids that any process had made until this time of the database."""
    return id_at(at + SKEW)


def lowest_after(made: UUID) -> UUID:
    """The lowest id that another process may have made after this one."""
    return UUID(int=max(0, made.int - (int(SKEW.total_seconds() * 1000) << 80)))


def digest_id(*parts: str) -> UUID:
    """Return an id that the same texts always give: the first half of the SHA-256 of all."""
    return UUID(bytes=sha256("\0".join(parts).encode()).digest()[:16])


def new_nonce() -> str:
    """128 random bits as 22 URL-safe characters."""
    return secrets.token_urlsafe(16)

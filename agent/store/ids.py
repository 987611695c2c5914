"""Ids are uuid7 (RFC 9562) made here, so that they sort by creation and are known before the row is written."""

from __future__ import annotations

import secrets
from datetime import datetime
from uuid import UUID

from uuid_utils.compat import uuid7


def new_id() -> UUID:
    """A fresh uuid7."""
    return uuid7()


def first_id_of(moment: datetime) -> UUID:
    """The smallest uuid7 of a moment: those that were made then or later are not smaller."""
    milliseconds = int(moment.timestamp() * 1000)
    return UUID(int=(milliseconds << 80) | (0x7 << 76) | (0x2 << 62))


def new_nonce() -> str:
    """128 random bits as 22 URL-safe characters: names a place where a card stands; cannot be guessed."""
    return secrets.token_urlsafe(16)

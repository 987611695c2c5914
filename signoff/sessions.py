"""Names of conversations: who shaped one question shapes what follows in its session."""

from __future__ import annotations

import re
from hashlib import sha256

from signoff.storable_text import unstorable

_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,200}")


def checked_session(session: str | None) -> str | None:
    """Raises ValueError."""
    if session is not None and not _is_sendable(session):
        words = "a session is a text of 1 to 200 characters without control characters"
        raise ValueError(f"{words}, not {session!r}")
    return session


def session_named(name: object) -> str | None:
    """A framework's name for the conversation, or its digest if that cannot be sent; None without a name."""
    if name is None or (text := str(name)) == "":
        return None
    return text if _is_sendable(text) else f"sha256:{sha256(text.encode(errors='surrogatepass')).hexdigest()}"


def _is_sendable(session: object) -> bool:
    return isinstance(session, str) and _NAME.fullmatch(session) is not None and unstorable(session) is None

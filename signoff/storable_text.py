"""What PostgreSQL can store: any Unicode except NUL and lone surrogates."""

from __future__ import annotations


def unstorable(text: str) -> str | None:
    """Return the reason as a phrase."""
    if "\x00" in text:
        return "contains a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "contains a lone surrogate"
    return None

"""Text that PostgreSQL can store: any Unicode except NUL and lone surrogates."""

from __future__ import annotations


def unstorable(text: str) -> str | None:
    """Why PostgreSQL cannot store this text, as a phrase that follows its name; ``None`` if it can."""
    if "\x00" in text:
        return "contains a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "contains a lone surrogate"
    return None

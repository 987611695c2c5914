"""The known name that a misspelt one probably means."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def meant(name: str, known: Iterable[str]) -> str:
    """Empty if no known name is close."""
    close = get_close_matches(name, sorted(known), n=1)
    return f' (did you mean "{close[0]}"?)' if close else ""

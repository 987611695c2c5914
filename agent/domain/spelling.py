from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def meant(name: str, known: Iterable[str]) -> str:
    """The closest known name, as a sentence's end; empty if none is close."""
    close = get_close_matches(name, sorted(known), n=1)
    return f' (did you mean "{close[0]}"?)' if close else ""

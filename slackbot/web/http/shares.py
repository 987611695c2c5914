"""How many of the places for waiting calls one key may hold."""

from __future__ import annotations

SHARE = 2
"""A key's share is so many times the free places."""


def share_of(most: int) -> int:
    """Places of a key while no other one holds any."""
    return SHARE * most // (SHARE + 1)

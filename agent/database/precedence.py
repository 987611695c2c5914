"""What goes first in a process: what a person waits for, then sweeps, then what nobody waits for."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum

MOST = 1.0
"""Seconds for which work of a lower rank waits at most before each of its steps: it is slowed down, never stopped."""


class Rank(IntEnum):
    """A lower number goes first."""

    PERSON = 1
    SWEEP = 2
    NOBODY = 3


class Precedence:
    """What is under way here, by rank. It is a courtesy: nothing depends on it but how long people wait."""

    def __init__(self, most: float = MOST) -> None:
        self._most = most
        self._at_work = Counter[Rank]()
        self._changed = asyncio.Event()

    @contextmanager
    def at_work(self, rank: Rank) -> Iterator[None]:
        """Work of this rank is under way."""
        self._at_work[rank] += 1
        try:
            yield
        finally:
            self._at_work[rank] -= 1
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    async def give_way(self, rank: Rank) -> None:
        """Wait until nothing that goes before this rank is under way."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._most):
                while any(self._at_work[each] for each in Rank if each < rank):
                    await self._changed.wait()

"""The order of work in a process: clicks and commands, sweeps, background work, expired calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import IntEnum


class Rank(IntEnum):
    """A lower rank goes first."""

    PERSON = 1
    TURN = 2
    SWEEP = 3
    BACKGROUND = 4
    LAST = 5


MOST = {Rank.PERSON: 0.0, Rank.TURN: 0.1, Rank.SWEEP: 1.0, Rank.BACKGROUND: 1.0, Rank.LAST: 5.0}
"""Seconds before each step: slowed down, never stopped."""


class Precedence:
    """Affects waiting times, never correctness."""

    def __init__(self, most: Mapping[Rank, float] = MOST) -> None:
        self._most = most
        self._at_work = Counter[Rank]()
        self._changed = asyncio.Event()

    @contextmanager
    def at_work(self, rank: Rank) -> Iterator[None]:
        self._at_work[rank] += 1
        try:
            yield
        finally:
            self._at_work[rank] -= 1
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    async def give_way(self, rank: Rank) -> None:
        """Wait while a higher rank runs, at most ``MOST[rank]`` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._most[rank]):
                while any(self._at_work[each] for each in Rank if each < rank):
                    await self._changed.wait()

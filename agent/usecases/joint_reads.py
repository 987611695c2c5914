"""Reads of one kind that share a query: many callers wake at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from itertools import islice
from typing import Generic, TypeVar

from agent.database.background import start_task
from agent.database.errors import DatabaseUnavailable

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


class JointRead(Generic[Key, Found]):
    """Reads all keys that are asked for at one moment with one query, which starts after the last caller asked."""

    def __init__(self, read: Callable[[list[Key]], Awaitable[Mapping[Key, Found]]]) -> None:
        self._read_all = read
        self._asked: dict[Key, asyncio.Future[Found | None]] = {}

    async def get(self, key: Key) -> Found | None:
        """The state after this call; ``None``: there is nothing of this key. Raises what reading raises."""
        if not self._asked:
            _ = start_task(self._read(), "joint read")
        future = self._asked.get(key)
        if future is None:
            future = self._asked[key] = asyncio.get_running_loop().create_future()
        return await asyncio.shield(future)  # one caller's end must not cancel the others

    async def _read(self) -> None:
        """Starts after all callers woken with the first have asked."""
        asked, self._asked = self._asked, {}
        try:
            await self._answer(asked)
        except BaseException:
            for future in asked.values():
                future.cancel()
            raise

    async def _answer(self, asked: Mapping[Key, asyncio.Future[Found | None]]) -> None:
        """What cannot be read fails alone: its callers come back, and others would fail with it each time."""
        try:
            found = await self._read_all(list(asked))
        except Exception as error:  # each caller handles it
            if len(asked) > 1 and not isinstance(error, DatabaseUnavailable):
                half = len(asked) // 2
                for part in (islice(asked.items(), half), islice(asked.items(), half, None)):
                    await self._answer(dict(part))
                return
            for future in asked.values():
                future.set_exception(error)
                future.exception()  # retrieved, in case every caller is gone
        else:
            for key, future in asked.items():
                future.set_result(found.get(key))

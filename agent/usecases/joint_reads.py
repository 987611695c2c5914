"""Reads of one kind that share a query: many callers wake at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Generic, TypeVar

import structlog

from agent.database.background import start_task
from agent.database.errors import DatabaseUnavailable

log = structlog.get_logger(__name__)

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


class JointRead(Generic[Key, Found]):
    """Reads all keys that are asked for at one moment with one query, which starts after the last caller asked."""

    def __init__(self, read: Callable[[list[Key]], Awaitable[Mapping[Key, Found]]]) -> None:
        self._read_all = read
        self._asked: dict[Key, asyncio.Future[Found | None]] = {}
        self._reading: set[asyncio.Task[None]] = set()

    async def get(self, key: Key) -> Found | None:
        """The state after this call; ``None``: there is nothing of this key. Raises what reading raises."""
        if not self._asked:
            task = start_task(self._read(), "joint read")
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)
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
            if len(asked) == 1 or isinstance(error, DatabaseUnavailable):
                for future in asked.values():
                    future.set_exception(error)
                    future.exception()  # retrieved, in case every caller is gone
                return
            log.warning(
                "read one by one", action="read.repeated", keys=len(asked), error=type(error).__name__
            )
            for key, future in asked.items():
                await self._answer({key: future})
        else:
            for key, future in asked.items():
                future.set_result(found.get(key))

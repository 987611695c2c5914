"""Changes of the workspace, and who waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from signoff_demo.sandbox.refusal import Json

T = TypeVar("T")

LOOK_SECONDS = 0.05
"""Poll interval for conditions that depend on more than the sandbox."""


class Changes:
    """A change is like `{"type": "message", "channel": …, "ts": …}`."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()
        self._listeners: set[asyncio.Queue[Json | None]] = set()

    def publish(self, change: Json) -> None:
        for listener in self._listeners:
            listener.put_nowait(change)
        self.wake()

    def wake(self) -> None:
        """Wake waiters for something that pages do not show (a Web API call, a socket)."""
        self._happened.set()
        self._happened = asyncio.Event()

    async def wait_for(self, predicate: Callable[[], T | None], timeout: float = 30.0) -> T:
        """Return the predicate's first truthy value. Raises TimeoutError after `timeout` seconds."""
        async with asyncio.timeout(timeout):
            while not (value := predicate()):
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._happened.wait()
            return value

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[asyncio.Queue[Json | None]]:
        """The queue receives None when the server closes."""
        queue: asyncio.Queue[Json | None] = asyncio.Queue()
        self._listeners.add(queue)
        try:
            yield queue
        finally:
            self._listeners.discard(queue)

    def close(self) -> None:
        for listener in self._listeners:
            listener.put_nowait(None)

"""Callers whom nobody knows are refused late: whoever floods with wrong keys waits, and leaves the loop to others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAUSE = 0.25
"""Seconds between a 401 and its caller's next attempt on the same connection."""

MOST = 256
"""Refusals that wait at the same time. Of more, the one that has waited longest is sent."""


class LateRefusals:
    """Holds every 401 back for a moment. No call that is let in is touched."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._waiting: dict[asyncio.Future[None], None] = {}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Without a frame of its own for calls that wait."""
        if scope["type"] != "http":
            return self._app(scope, receive, send)

        async def late(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                await self._wait()
            await send(message)

        return self._app(scope, receive, late)

    async def _wait(self) -> None:
        enough: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[enough] = None
        if len(self._waiting) > MOST:
            longest = next(iter(self._waiting))
            del self._waiting[longest]
            longest.set_result(None)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSE):
                    await enough
        finally:
            self._waiting.pop(enough, None)

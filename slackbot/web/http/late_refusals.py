"""Delay 401 responses: a flood of wrong keys waits and leaves the event loop to others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAUSE = 0.25
"""Seconds before a 401 is sent."""

MOST = 256
"""Beyond so many, the oldest is sent."""


class LateRefusals:
    """An ASGI layer that holds back each 401 for a moment; beyond a number, the oldest goes out at once."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._waiting: dict[asyncio.Future[None], None] = {}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Add no frame for calls that wait."""
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

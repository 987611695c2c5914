"""HEAD is answered like GET, without a body."""

from __future__ import annotations

from collections.abc import Awaitable

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_MARK = "signoff.head"


def is_head(request: Request) -> bool:
    """Nobody reads the content of this response."""
    return bool(request.scope.get(_MARK))


class HeadAsGet:
    """Answers HEAD like GET, without a body (RFC 9110, 9.3.2); a stream ends with its headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            return self._app(scope, receive, send)
        return self._head(scope, receive, send)

    async def _head(self, scope: Scope, receive: Receive, send: Send) -> None:
        answered, read = False, {**scope, "method": "GET", _MARK: True}

        async def receives() -> Message:
            return {"type": "http.disconnect"} if answered else await receive()

        async def sends(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                scope["route"] = read.get("route")  # for what counts responses by route
                await send(message)
            elif not answered:
                answered = True
                await send({"type": "http.response.body", "body": b""})

        await self._app(read, receives, sends)

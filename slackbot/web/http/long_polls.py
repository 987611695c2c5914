"""Long polls that hold no frames of their route while they wait.

A route that has to wait answers `Waiting`, which sends nothing. The application waits, and then calls the route again,
which finds the state in `waited`. In between only the connection is left: most of what a waiting
program would take are frames, contexts and requests of middleware, framework and route.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast
from uuid import UUID

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from slackbot.web.http.places import HeldPlace

Watch = Callable[[UUID, int, float], Awaitable[str]]
"""A request's id, its known audit entries and seconds; returns the audit entries."""

_WAITS, _WAITED = "signoff.waits", "signoff.waited"


@dataclass(slots=True)
class LongPoll:
    """One call's wait for a request, until a time (monotonic), with its place.

    `recorded`: the request's audit entries that the caller knows; `found`: those after the last wait.
    """

    request_id: UUID
    until: float
    place: HeldPlace
    recorded: int = -1
    found: str = ""

    def goes_on(self, recorded: int) -> bool:
        """Whether to wait: at first if there is a place, then while the request changes before the time is over."""
        if self.recorded < 0:
            granted = self.place.take().granted
        else:
            granted = self.found != str(self.recorded) and self.until > time.monotonic()
        self.recorded = recorded
        return granted


class Waiting(Response):
    """Nothing is answered yet: ``watch`` until the request changes or the time is over, then call the route again."""

    def __init__(self, poll: LongPoll, watch: Watch) -> None:
        super().__init__()
        self._waits = (poll, watch)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        scope["state"][_WAITS] = self._waits


def waited(request: Request) -> LongPoll | None:
    """The wait of this call, if its route was called before."""
    return cast("LongPoll | None", request.scope["state"].get(_WAITED))


class WaitingApplication(FastAPI):
    """An application whose routes may answer `Waiting`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        # Each call gets a scope of its own: what routing leaves in it is dropped with the frames.
        await super().__call__(dict(scope), receive, send)
        try:
            while (waits := state.pop(_WAITS, None)) is not None:
                poll, watch = waits
                state[_WAITED] = poll
                poll.found = await watch(poll.request_id, poll.recorded, poll.until - time.monotonic())
                await super().__call__(dict(scope), receive, send)
        finally:
            if (poll := state.get(_WAITED)) is not None:
                poll.place.give_back()

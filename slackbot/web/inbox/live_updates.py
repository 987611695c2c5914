"""Server-sent events (WHATWG HTML, 9.2) that tell an open page to refresh. Uses no thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request

from signoff.errors import SignoffError
from slackbot.web.auth.visitors import Signed, visitor
from slackbot.web.http.context import web_context
from slackbot.web.http.places import HeldStream
from slackbot.web.http.problems import ProblemRaised
from slackbot.web.inbox.rendering import HEADERS, PageRoute

PATIENCE = 20.0
"""Seconds until a comment keeps the connection open and the session is checked again."""

MAX_STREAMS = 20
"""Open pages of one person that are told; hidden ones are not."""

PAUSE = 0.3
"""Minimum seconds between events."""

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/inbox/events")
async def events(request: Request, who: Signed) -> HeldStream:
    """Stream a sign of each change, so that an open page refreshes; one person has at most 20 streams."""
    name = str(who.person)
    place = web_context(request).places.stream(request, name, MAX_STREAMS, "Your browser")
    stream = HeldStream(_changes(request), headers={**HEADERS, "X-Accel-Buffering": "no"})
    stream.place = place
    return stream


async def _changes(request: Request) -> AsyncIterator[str]:
    """The first event has the current state: nothing since the page load is missed."""
    watch, seen = web_context(request).watch, None
    yield "retry: 2000\n\n"
    while not (watch.closing or await request.is_disconnected()):
        token = await watch.anything(seen, PATIENCE)
        try:
            await visitor(request)
        except (SignoffError, ProblemRaised):
            return
        yield ": nothing new\n\n" if token == seen else "event: changed\ndata: \n\n"
        seen = token
        await asyncio.sleep(PAUSE)

"""`/events`: server-sent events (WHATWG HTML, section 9.2). Ids and states, never arguments."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPAuthorizationCredentials
from starlette.responses import StreamingResponse

from agent.database.pools import Database
from agent.domain.api_keys import Principal
from agent.domain.api_keys import Scope as KeyScope
from agent.domain.audit import AuditKind
from agent.store.views import Transition
from agent.usecases import api_keys
from agent.usecases.api_keys import TooManyCalls
from slackbot.web.api.event_feed import TYPES, EventPosition, Feed, Listener, event_id
from slackbot.web.api.shapes import rfc3339
from slackbot.web.http.api_keys import RequireScope, bearer
from slackbot.web.http.bodies import StrictRoute
from slackbot.web.http.context import web_context
from slackbot.web.http.places import HeldStream, StreamPlace
from slackbot.web.http.problems import documented

router = APIRouter(route_class=StrictRoute, tags=["Events"])

HEARTBEAT = 15.0
"""Seconds of silence before a comment keeps the connection open; the key is then checked again."""

MAX_STREAMS = 20
"""Open streams per key."""

_FIRST_STATE = {
    AuditKind.REQUEST_OPENED: "waiting",
    AuditKind.RUN_STARTED: "working",
    AuditKind.RUN_RESUMED: "working",
}
_EXAMPLE = """\
id: 2026-11-21T09:30:00.5Z/request:01980000-0000-7000-8000-000000000000/1
event: request.opened
data: {"request_id": "01980000-0000-7000-8000-000000000000", "status": "waiting", "at": "2026-11-21T09:30:00.5Z", "kind": "request.opened"}

"""  # noqa: E501 - sent verbatim
STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events, until either side ends it",
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
    }
}

Presented = Annotated[HTTPAuthorizationCredentials, Depends(bearer)]
LastEventID = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        description="The id of your last event; the events after it come first.",
    ),
]


def stream_place(request: Request, caller: Principal) -> StreamPlace:
    """Reserves one of a key's streams. Raises ProblemRaised (429) if none is left."""
    return web_context(request).places.stream(request, caller.name, MAX_STREAMS, f"The key {caller.key}")


class Events(HeldStream):
    """A response of server-sent events that nobody caches; its place is given back when it ends."""

    def __init__(self, lines: AsyncIterator[str], place: StreamPlace) -> None:
        super().__init__(lines, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self.place = place


@router.get(
    "/events",
    operation_id="watch_events",
    status_code=200,
    response_class=Events,
    responses={**STREAM, **documented(401, 403, 422, 429, 503)},
)
async def watch_events(
    request: Request,
    presented: Presented,
    caller: Annotated[Principal, Depends(RequireScope(KeyScope.READ, KeyScope.ADMIN))],
    last_event_id: LastEventID = None,
) -> StreamingResponse:
    """Stream events: `request.opened`, `request.changed`, `request.decided` and `run.changed`.

    Delivery is at least once; each event has a stable `id`. After a disconnect, send the last one as `Last-Event-ID` (a
    browser's EventSource does so by itself). `reset` means that too much was missed: reload everything.
    """
    ctx = web_context(request)
    since = position(last_event_id)
    place = stream_place(request, caller)
    feed: Feed = request.app.state.feed
    return Events(_lines(feed, since, ctx.db, presented.credentials), place)


def position(text: str | None) -> EventPosition | None:
    """Raises RequestValidationError."""
    try:
        return EventPosition.read(text) if text else None
    except ValueError as error:
        raise RequestValidationError(
            [{"loc": ("header", "Last-Event-ID"), "msg": str(error), "type": "value_error"}]
        ) from None


async def _lines(feed: Feed, since: EventPosition | None, db: Database, secret: str) -> AsyncIterator[str]:
    """Holds no thread, and a database connection only while catching up."""
    listener = Listener()
    async with feed.listener(listener):
        yield "retry: 2000\n\n"
        delivered: set[str] = set()
        if since is not None:
            missed = await feed.missed(since)
            if missed is None:
                yield "event: reset\ndata: {}\n\n"
            for event in missed or ():
                delivered.add(event_id(event))
                yield line(event)
        checked = time.monotonic()
        while True:
            news, ended = await _next(listener, max(0.0, checked + HEARTBEAT - time.monotonic()))
            if ended:
                return
            if news is not None and event_id(news) not in delivered:
                yield line(news)
            if time.monotonic() - checked >= HEARTBEAT:
                if not await _still_valid(db, secret):
                    return
                yield ": still here\n\n"
                checked = time.monotonic()


async def _next(listener: Listener, seconds: float) -> tuple[Transition | None, bool]:
    """The flag says whether the stream has ended."""
    try:
        async with asyncio.timeout(seconds):
            event = await listener.queue.get()
    except TimeoutError:
        return None, False
    return event, event is None


async def _still_valid(db: Database, secret: str) -> bool:
    try:
        return await api_keys.authenticate(db, secret) is not None
    except TooManyCalls:
        return True


def line(event: Transition, run_id: UUID | None = None) -> str:
    """Write an event for a stream, with ids and state as JSON and never any content of a request."""
    kind = AuditKind(event.event)
    of_run = {} if run_id is None else {"run_id": str(run_id)}
    data = of_run | {
        f"{event.about}_id": str(event.id),
        "status": event.outcome or _FIRST_STATE.get(kind),
        "at": rfc3339(event.at),
        "kind": kind.value,
    }
    name = TYPES[kind] if event.about == "request" else "run.changed"  # a call that needed no approval
    return f"id: {event_id(event)}\nevent: {name}\ndata: {json.dumps(data)}\n\n"

"""`/events`: what happens, as server-sent events (WHATWG HTML, section 9.2). Ids and states, never arguments."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPAuthorizationCredentials
from starlette.responses import StreamingResponse

from agent.database.pools import Database
from agent.domain.api_keys import Principal, Scope
from agent.domain.audit import AuditKind
from agent.store.views import Transition
from agent.usecases import api_keys
from agent.usecases.api_keys import TooManyCalls
from slackbot.web.api.event_feed import TYPES, EventPosition, Feed, Listener, event_id
from slackbot.web.api.shapes import rfc3339
from slackbot.web.http.api_keys import RequireScope, bearer
from slackbot.web.http.bodies import StrictRoute
from slackbot.web.http.context import web_context
from slackbot.web.http.problems import documented

router = APIRouter(route_class=StrictRoute, tags=["Events"])

HEARTBEAT = 15.0
"""Seconds of silence after which a comment keeps the connection open; then the key is looked at again, too."""

_FIRST_STATE = {AuditKind.REQUEST_OPENED: "waiting", AuditKind.RUN_STARTED: "working"}
_EXAMPLE = """\
id: 2026-11-21T09:30:00.5Z/request:01980000-0000-7000-8000-000000000000/1
event: request.opened
data: {"request_id": "01980000-0000-7000-8000-000000000000", "status": "waiting", "at": "2026-11-21T09:30:00.5Z", "kind": "request.opened"}

"""  # noqa: E501 - as it is sent
_STREAM: dict[int | str, dict[str, Any]] = {
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
        description="The id of the last event that you had: what followed is told first.",
    ),
]


class Events(StreamingResponse):
    """A stream of them."""

    media_type = "text/event-stream"


@router.get(
    "/events",
    operation_id="watch_events",
    response_class=Events,
    responses={**_STREAM, **documented(401, 403, 422, 429, 503)},
)
async def watch_events(
    request: Request,
    presented: Presented,
    _: Annotated[Principal, Depends(RequireScope(Scope.READ, Scope.ADMIN))],
    last_event_id: LastEventID = None,
) -> StreamingResponse:
    """Follow what happens: `request.opened`, `request.changed`, `request.decided` and `run.changed`.

    Each event is told at least once; its `id` names it. After a break send the last one as `Last-Event-ID` (a
    browser's EventSource does so by itself). `reset` means that too much was missed: look at everything anew.
    """
    ctx = web_context(request)
    since = _since(last_event_id)
    feed: Feed = request.app.state.feed
    lines = _lines(feed, since, ctx.db, presented.credentials)
    return Events(lines, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


def _since(text: str | None) -> EventPosition | None:
    try:
        return EventPosition.read(text) if text else None
    except ValueError as error:
        raise RequestValidationError(
            [{"loc": ("header", "Last-Event-ID"), "msg": str(error), "type": "value_error"}]
        ) from None


async def _lines(feed: Feed, since: EventPosition | None, db: Database, secret: str) -> AsyncIterator[str]:
    """Holds no thread, and a connection to the database only while it catches up."""
    async with feed.listener() as listener:
        yield "retry: 2000\n\n"
        told: set[str] = set()
        if since is not None:
            missed = await feed.missed(since)
            if missed is None:
                yield "event: reset\ndata: {}\n\n"
            for event in missed or ():
                told.add(event_id(event))
                yield line(event)
        checked = time.monotonic()
        while True:
            news, ended = await _next(listener, max(0.0, checked + HEARTBEAT - time.monotonic()))
            if ended:
                return
            if news is not None and event_id(news) not in told:
                yield line(news)
            if time.monotonic() - checked >= HEARTBEAT:
                if not await _still_valid(db, secret):
                    return
                yield ": still here\n\n"
                checked = time.monotonic()


async def _next(listener: Listener, seconds: float) -> tuple[Transition | None, bool]:
    """The next event, or nothing in that time; and whether there will be no more."""
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


def line(event: Transition) -> str:
    """The event as it is sent."""
    kind = AuditKind(event.event)
    data = {
        f"{event.about}_id": str(event.id),
        "status": event.outcome or _FIRST_STATE.get(kind),
        "at": rfc3339(event.at),
        "kind": kind.value,
    }
    return f"id: {event_id(event)}\nevent: {TYPES[kind]}\ndata: {json.dumps(data)}\n\n"

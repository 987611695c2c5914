"""All routes of a process as one ASGI application."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import cache

from fastapi import APIRouter, Depends, FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slackbot.web import inbox
from slackbot.web.api import (
    agentos,
    agentos_sessions,
    agents,
    agno,
    approve,
    events,
    executions,
    external_calls,
    pending,
    run_events,
    webhooks,
)
from slackbot.web.api.event_feed import Feed
from slackbot.web.http import openapi, problems
from slackbot.web.http.bodies import MAX_BODY_BYTES, refuse_unstorable
from slackbot.web.http.context import WebContext
from slackbot.web.http.head import HeadAsGet
from slackbot.web.http.late_refusals import LateRefusals
from slackbot.web.http.long_polls import WaitingApplication
from slackbot.web.http.metrics import HTTP_REQUESTS, SERVER_ERRORS
from slackbot.web.http.problems import ProblemRaised
from slackbot.web.inbox import sign_in

_COUNTED = {*problems.METHODS, "HEAD", "OPTIONS"}

API_VERSION = "1"
"""Independent of the service's version."""

API = frozenset({"agentos", "agents", "approve", "events", "executions", "pending", "runs", "webhooks"})

_WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE"})


def application(ctx: WebContext, more: Sequence[BaseRoute] = ()) -> FastAPI:
    """Our routes, after `more` (Slack's events, health), which are then not matched against the whole API first."""
    app = WaitingApplication(
        title="Signoff",
        version=API_VERSION,
        openapi_url=None,  # `openapi.py` has the route
        docs_url=None,
        redoc_url=None,
    )
    openapi.describe(app)
    app.state.ctx = ctx
    app.state.feed = Feed(ctx.db, ctx.watch)
    problems.handle(app)
    app.router.routes.extend([*more, *_routes()])
    app.add_middleware(HeadAsGet)
    app.add_middleware(BodyLimit)
    app.add_middleware(RouteCounter)
    app.add_middleware(LateRefusals)
    if ctx.cors_origins:
        app.add_middleware(ApiForPages, origins=ctx.cors_origins)
    return app


@cache
def _routes() -> list[BaseRoute]:
    """Cached per process: FastAPI takes a while to analyse signatures."""
    together = APIRouter(
        generate_unique_id_function=openapi.operation_id, dependencies=[Depends(refuse_unstorable)]
    )
    for module in (
        pending,
        approve,
        sign_in,
        inbox,
        webhooks,
        agno,
        agentos,
        agentos_sessions,
        agents,
        events,
        run_events,
        openapi,
        executions,
        external_calls,
    ):
        together.include_router(module.router)
    return together.routes


class RouteCounter:
    """Counts responses by route pattern, because paths contain ids."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Add no frame: thousands of waiting calls pass through here."""
        if scope["type"] != "http":
            return self._app(scope, receive, send)

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                method = scope["method"] if scope["method"] in _COUNTED else "OTHER"
                route = getattr(scope.get("route"), "path", None) or "none"
                HTTP_REQUESTS.labels(method, route, str(message["status"])).inc()
                if message["status"] >= 500:
                    SERVER_ERRORS.inc()
            await send(message)

        return self._app(scope, receive, counted)


class ApiForPages:
    """Lets pages of these origins call the API (CORS, WHATWG Fetch), with a key and never with cookies.

    Our own pages, and all other responses, ignore the origins.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self._app = app
        self._api = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID"],
            expose_headers=["Idempotency-Replayed", "Link", "Retry-After"],
        )

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Add no frame for calls that wait."""
        first = scope["path"].lstrip("/").partition("/")[0] if scope["type"] == "http" else ""
        return (self._api if first in API else self._app)(scope, receive, send)


class BodyLimit:
    """Refuses oversized bodies before reading them entirely: 413 (RFC 9110, section 15.5.14)."""

    def __init__(self, app: ASGIApp, most: int = MAX_BODY_BYTES) -> None:
        self._app = app
        self._most = most

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Add no frame for calls that wait."""
        if scope["type"] != "http":
            return self._app(scope, receive, send)
        headers = dict(scope["headers"])
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > self._most:
            return self._too_large().response(scope, receive, send)
        if int(declared) == 0 and b"transfer-encoding" not in headers and scope["method"] in _WITHOUT_BODY:
            return self._app(scope, receive, send)
        return self._app(scope, self._counting(receive), send)

    def _counting(self, receive: Receive) -> Receive:
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._most:
                raise self._too_large()
            return message

        return counted

    def _too_large(self) -> ProblemRaised:
        return ProblemRaised(413, "too-large", "Too large", f"A body has up to {self._most} bytes.")

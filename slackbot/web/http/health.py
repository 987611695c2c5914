"""`/healthz`, `/readyz` and `/metrics`.

Ready: the database answers with a current schema, and the process is not stopping. Slack, model and workers being
away is told in the body, and is no reason to take the service out of traffic: what arrives is kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from slackbot.masking import clean_value

Checks = Callable[[], Awaitable[tuple[bool, Mapping[str, Any]]]]
"""Whether the service is ready, and how each part is."""

Exposition = Callable[[], Awaitable[bytes]]
"""Every figure, in Prometheus' text format."""


def health_routes(checks: Checks, exposition: Exposition) -> list[Route]:
    """The three routes, for a Starlette or FastAPI application."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        ready, parts = await checks()
        return JSONResponse(
            {"ready": ready, **await clean_value(dict(parts))}, status_code=200 if ready else 503
        )

    async def metrics(_: Request) -> Response:
        return Response(await exposition(), media_type=CONTENT_TYPE_LATEST)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]


def health_application(checks: Checks, exposition: Exposition) -> Starlette:
    """These three routes alone: for a port of their own, which also a process without the role ``web`` can have."""
    return Starlette(routes=health_routes(checks, exposition))

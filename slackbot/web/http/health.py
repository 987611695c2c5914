"""`/healthz`, `/readyz` and `/metrics`.

Ready means: the database answers and stores, its schema is current, and the process is not stopping. Unreachable
Slack, model or workers do not take the service out of traffic, because incoming requests are stored.
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
"""Readiness, and each component's health."""

Exposition = Callable[[], Awaitable[bytes]]


def health_routes(checks: Checks, exposition: Exposition) -> list[Route]:
    """Return the routes `/healthz`, `/readyz` (503 and the reasons if not ready) and `/metrics`."""

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
    """For a separate port; also without the role ``web``."""
    return Starlette(routes=health_routes(checks, exposition))

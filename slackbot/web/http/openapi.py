"""The OpenAPI 3.1 document and its interactive page, without external resources."""

from __future__ import annotations

import html
from functools import cache, partial
from importlib import resources
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.responses import HTMLResponse, JSONResponse, Response

from slackbot.web.http import problems
from slackbot.web.http.form_or_json import MODELS

router = APIRouter(include_in_schema=False)

ABOUT = """\
Ask people in Slack before something is done, from any language. Every call but the health checks needs a key
(`signoff keys create`), sent as `Authorization: Bearer signoff_…`. A key that asks can never decide. Errors are
returned as `application/problem+json` (RFC 9457), times in UTC (RFC 3339). No GET changes anything, with one exception:
when the program that asked reads an approval, that is recorded.
"""
TAGS = {
    "Requests": "Ask for a review, wait for it, withdraw it.",
    "Decisions": "A person's vote, through their own key.",
    "Agents": "An inbox of running agents: start them, see which wait, answer.",
    "Runs in Agno's format": "The same for clients of Agno's AgentOS: runs pause, tools are confirmed, runs continue.",
    "AgentOS": "The same in AgentOS' exact format: for Agno's own client, with events as they happen.",
    "Executors": "Claim an approved action, execute it once, and report the result.",
    "Events": "Events, as they happen.",
    "Webhooks": "Events, sent to your own URL.",
}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",  # Swagger UI's own icons
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="icon" type="image/png" href="/docs/favicon-32x32.png">
</head>
<body>
<main id="swagger-ui"><noscript>This page needs JavaScript; the document itself is at /openapi.json.</noscript></main>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
_START = """\
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  filter: true,
  persistAuthorization: false,
  displayRequestDuration: true,
  validatorUrl: null,
});
"""
_ASSETS = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}


@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """Serve the interactive page of the HTTP API, named after the application."""
    title: str = request.app.title
    return HTMLResponse(_PAGE.format(title=html.escape(f"{title}: the HTTP API")), headers=_HEADERS)


@router.get("/docs/start.js")
async def start() -> Response:
    """A separate file, because the CSP forbids inline scripts."""
    return Response(_START, media_type="text/javascript", headers=_HEADERS)


@router.get("/docs/{name}")
async def asset(name: str) -> Response:
    """Serve a file of the interactive page, to be cached for a day; 404 for any other name."""
    if name not in _ASSETS:
        return problems.problem(404, "not-found", "Not found", "Not found")
    headers = {**_HEADERS, "Cache-Control": "max-age=86400"}
    return Response(_content(name), media_type=_ASSETS[name], headers=headers)


@cache
def _content(name: str) -> bytes:
    """Read once: anybody may ask for it, and responses that wait to be read share the bytes."""
    return (resources.files("fastapi_swagger.resources") / name).read_bytes()


@router.route("/openapi.json", include_in_schema=False)
async def document(request: Request) -> Response:
    """Serialized once, unlike FastAPI's own route: anybody may ask for it."""
    state = request.app.state
    if not hasattr(state, "document"):
        state.document = JSONResponse(request.app.openapi()).body
    return Response(state.document, media_type="application/json")


def operation_id(route: APIRoute) -> str:
    """Return an operation's id in OpenAPI: the name of its route's function."""
    return route.name


def describe(app: FastAPI) -> None:
    """Make the application describe itself with our OpenAPI document instead of FastAPI's."""
    app.openapi = partial(_document, app)  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=ABOUT,
            routes=app.routes,
            tags=[{"name": name, "description": words} for name, words in TAGS.items()],
        )
        _add_models(document)
        for path in document["paths"].values():
            for method in set(path) & {each.lower() for each in problems.METHODS}:
                _document_problems(path[method])
        schemas = document["components"]["schemas"]
        schemas["Problem"] = problems.ProblemDetails.model_json_schema()
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        app.openapi_schema = document
    return app.openapi_schema


def _add_models(document: dict[str, Any]) -> None:
    """Add bodies sent as form or JSON, which FastAPI does not see."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name, model in MODELS.items():
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {})
        schemas[name] = schema


def _document_problems(operation: dict[str, Any]) -> None:
    """Document every error as problem details, including FastAPI's own."""
    for status, answer in operation["responses"].items():
        if status.isdigit() and int(status) >= 400:
            reference = {"schema": {"$ref": "#/components/schemas/Problem"}}
            answer["content"] = {problems.MEDIA_TYPE: reference}

"""Problem details (RFC 9457)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from agent.database.errors import DatabaseRefuses, DatabaseUnavailable, OutcomeUnknown
from agent.database.failure_log import log_failure
from agent.domain.errors import DOUBTFUL, NotFound, OutdatedPolicy, Refusal, Refused
from agent.domain.spelling import meant
from agent.usecases.api_keys import TooManyCalls
from signoff.durations import FORMS, PATTERN
from signoff.errors import Conflict, MalformedArguments
from signoff.json_form import phrase
from signoff.values import ACTION_NAME, REQUEST_NAME, SLACK_USER
from slackbot.masking import clean_now

log = structlog.get_logger(__name__)

METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")
"""Of our routes; GET answers HEAD, too."""
MEDIA_TYPE = "application/problem+json"


class ProblemDetails(BaseModel):
    """Problem details (RFC 9457). `type` identifies the kind of problem and is stable; `detail` is for people."""

    type: str
    title: str
    status: int
    detail: str


class ProblemRaised(HTTPException):
    """An HTTPException, because FastAPI lets those through while it reads a body."""

    def __init__(
        self,
        status: int,
        kind: str,
        title: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(status, detail, headers)
        self.kind = kind
        self.title = title
        self.more = more

    @property
    def response(self) -> JSONResponse:
        return problem(
            self.status_code, self.kind, self.title, self.detail, headers=self.headers, **self.more
        )


_MEANINGS = {
    400: "The body cannot be read",
    401: "No valid key",
    403: "The key, or its owner, may not do this",
    404: "It does not exist, or the caller may not see it",
    409: "The current state does not allow this",
    413: "The body is too large",
    415: "The body has an unsupported type",
    422: "The call is invalid; `errors` says where",
    429: "Too many calls; `Retry-After` says when to try again",
    503: "Temporarily unavailable; `Retry-After` says when to try again",
}


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses of these error statuses, each with problem details."""
    content = {MEDIA_TYPE: {"schema": ProblemDetails.model_json_schema()}}
    return {status: {"description": _MEANINGS[status], "content": content} for status in statuses}


def problem(
    status: int, kind: str, title: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
) -> JSONResponse:
    """Return a response with problem details (RFC 9457); `more` adds members of its own."""
    content = {"type": f"urn:signoff:{kind}", "title": title, "status": status, "detail": detail, **more}
    return JSONResponse(content, status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def retry_later(kind: str, title: str, detail: str, seconds: float, status: int = 503) -> ProblemRaised:
    """Nothing happened; the same call may succeed after ``seconds``."""
    return ProblemRaised(
        status, kind, title, detail, headers={"Retry-After": str(max(1, math.ceil(seconds)))}
    )


def invalid(*faults: tuple[str, str]) -> ProblemRaised:
    """422 with each error's location. Values may be secrets, so they are not repeated."""
    errors = [{"path": path, "problem": what} for path, what in faults]
    words = "; ".join(str(MalformedArguments(*fault)) for fault in faults[:5])
    return ProblemRaised(422, "invalid", "Invalid", clean_now(words, assigned=False), errors=errors)


CONFLICTS = frozenset({Refusal.ALREADY_DECIDED, Refusal.EXPIRED, Refusal.WITHDRAWN, Refusal.STALE_REVISION})


def handle(app: FastAPI) -> None:
    """Return every error as problem details, without internal information."""
    app.add_exception_handler(ProblemRaised, _raised)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(OutdatedPolicy, _outdated_policy)
    app.add_exception_handler(NotFound, _not_found)
    app.add_exception_handler(Conflict, _conflict)
    app.add_exception_handler(MalformedArguments, _malformed)
    app.add_exception_handler(TooManyCalls, _too_many)
    app.add_exception_handler(OutcomeUnknown, _unknown)
    app.add_exception_handler(DatabaseUnavailable, _unavailable)
    app.add_exception_handler(DatabaseRefuses, _refuses)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _failed)


async def _outdated_policy(_: Request, error: Exception) -> Response:
    words = f"Nothing was evaluated, opened or claimed: {clean_now(str(error), assigned=False)}."
    return retry_later("policy-not-loaded", "The policy is not loaded", words, 5).response


async def _raised(_: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemRaised)  # noqa: S101 - for the type checker: guaranteed by registration
    return error.response


async def _refused(_: Request, error: Exception) -> Response:
    """404 for what the caller may not see, 409 for what is decided, 503 if in doubt, otherwise 403."""
    assert isinstance(error, Refused)  # noqa: S101 - for the type checker: guaranteed by registration
    kind = error.code.value.replace("_", "-")
    if error.code is Refusal.UNKNOWN_REQUEST:
        return problem(404, "not-found", "Not found", "There is no such request.")
    if error.code in DOUBTFUL:
        return problem(503, kind, "Temporarily unavailable", error.sentence, headers={"Retry-After": "5"})
    status = 409 if error.code in CONFLICTS else 422 if error.code is Refusal.REASON_REQUIRED else 403
    stale = error.code is Refusal.STALE_REVISION
    title = "Changed in the meantime" if stale else "Already decided" if status == 409 else "Refused"
    return problem(status, kind, title, error.sentence)


async def _not_found(_: Request, error: Exception) -> Response:
    return problem(404, "not-found", "Not found", clean_now(str(error)))


async def _conflict(_: Request, error: Exception) -> Response:
    return problem(409, "conflict", "Conflict", clean_now(str(error)))


async def _malformed(_: Request, error: Exception) -> Response:
    assert isinstance(error, MalformedArguments)  # noqa: S101 - for the type checker: guaranteed by registration
    return invalid((error.path, error.problem)).response


async def _too_many(_: Request, error: Exception) -> Response:
    assert isinstance(error, TooManyCalls)  # noqa: S101 - for the type checker: guaranteed by registration
    return retry_later("too-many-calls", "Too many calls", str(error), error.seconds, status=429).response


async def _unknown(_: Request, __: Exception) -> Response:
    words = "The connection to the database was lost, so nobody knows whether this counted. Calling again is safe."
    return retry_later("outcome-unknown", "Outcome unknown", words, 1).response


async def _refuses(_: Request, error: Exception) -> Response:
    assert isinstance(error, DatabaseRefuses)  # noqa: S101 - for the type checker: guaranteed by registration
    log_failure("a call failed", error, action="http.failed")
    return retry_later("database-refuses", "The database refuses", error.sentence, 5).response


async def _unavailable(_: Request, error: Exception) -> Response:
    log_failure("a call failed", error, action="http.failed")
    words = "The database does not answer in time; nothing was done. Please try again."
    return retry_later("unavailable", "Unavailable", words, 2).response


async def _invalid(request: Request, error: Exception) -> Response:
    """List all invalid fields by path. Values may be secrets, so they are not repeated."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - for the type checker: guaranteed by registration
    known = _fields(request)
    found = [{"path": _path(each["loc"]), "problem": _phrase(each, known)} for each in error.errors()]
    words = "; ".join(f"{each['path']}: {each['problem']}" for each in found[:5])
    if "json" not in request.headers.get("content-type", "") and any(e["path"] == "body" for e in found):
        words += "; send JSON with `Content-Type: application/json`"
    return problem(422, "invalid", "Invalid", words, errors=found)


SPELLINGS = {each.pattern: each.words for each in (ACTION_NAME, REQUEST_NAME, SLACK_USER)} | {
    PATTERN: f"must be {FORMS}",
    r"\S": "must have more than spaces",
    r"^[!-~]+$": "must have only visible ASCII characters and no spaces, such as `delete-42`",
    r"^[^\x00-\x1f\x7f]+$": "must have no line breaks or other control characters",
    r"^[0-9a-f]{64}$": "must be a SHA-256 as 64 digits and letters from a to f, such as the `digest` of a request",
}
"""For people, in place of a pattern."""


def _phrase(fault: Mapping[str, Any], known: Iterable[str]) -> str:
    """For an unknown field, with a similar known name."""
    if fault["type"] == "string_pattern_mismatch":
        return SPELLINGS.get(fault["ctx"]["pattern"], "is not written as it has to be")
    if fault["type"].startswith("uuid"):
        return "must be an id, such as `01980000-0000-7000-8000-000000000000`"
    if fault["type"] == "extra_forbidden":
        name = str(fault["loc"][-1])
        return f"there is no such field{meant(name, known) if len(fault['loc']) == 2 else ''}"
    return phrase(fault)


def _fields(request: Request) -> Iterable[str]:
    field = getattr(request.scope.get("route"), "body_field", None)
    model = getattr(getattr(field, "field_info", None), "annotation", None)
    return getattr(model, "model_fields", {}).keys()


def _path(location: tuple[Any, ...]) -> str:
    return ".".join(str(step) for step in location if step != "body") or "body"


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker: guaranteed by registration
    kind = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "http")
    title, headers = str(error.detail), dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(sorted(_methods(request)))
    return problem(error.status_code, kind, title, title, headers=headers)


def _methods(request: Request) -> set[str]:
    """Of all routes of this path: Starlette names those of the first alone."""
    routes, scope = request.app.routes, request.scope
    found = {
        method
        for method in METHODS
        if any(each.matches({**scope, "method": method})[0] is Match.FULL for each in routes)
    }
    return found | ({"HEAD"} if "GET" in found else set())


async def _failed(request: Request, error: Exception) -> Response:
    # The route: a path may contain a sign-in link's secret.
    route = getattr(request.scope.get("route"), "path", None)
    log.error("a call failed", action="http.failed", route=route, exc_info=error)
    return problem(500, "failed", "Failed", "Something went wrong here; it has been logged.")

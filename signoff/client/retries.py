"""Retries until a deadline."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from signoff.backoff import Backoff
from signoff.client.effects import HttpRequest, HttpResponse, NoResponse, Operation, Sleep
from signoff.errors import AlreadyClaimed, ApiError, Conflict, Unreachable
from signoff.retry_after import retry_after

log = logging.getLogger("signoff.client")

PAUSES = Backoff(first=0.2, longest=5.0, spread=(0.5, 1.0))
"""Unless the service asks for a longer one."""
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


def send_with_retries(call: HttpRequest, deadline: float) -> Operation[Any]:
    """Send an idempotent call, and return its content. Raises ApiError, Conflict and Unreachable."""
    return content_of((yield from respond_with_retries(call, deadline)))


def respond_with_retries(call: HttpRequest, deadline: float) -> Operation[HttpResponse]:
    """Raises ApiError, Conflict and Unreachable."""
    attempt = 0
    while True:
        attempt += 1
        left = max(0.5, deadline - time.monotonic())
        asked: float | None = None
        try:
            answer: HttpResponse = yield replace(call, seconds=min(call.seconds, left + 1.0))
        except NoResponse as error:
            failure: Exception = Unreachable(f"the service does not answer: {error}")
        else:
            if 200 <= answer.status < 300:
                return answer
            failure = error_from(answer)
            if not _is_transient(answer.status, failure):
                raise failure
            asked = asked_to_wait(answer)
        left = deadline - time.monotonic()
        if left <= 0:
            raise failure
        if attempt == 1:
            log.warning("%s; trying again for %.0f s", failure, left)
        yield Sleep(min(left, PAUSES.after(attempt, random.random(), asked)))  # noqa: S311 - jitter, not a secret


def asked_to_wait(answer: HttpResponse) -> float | None:
    """Seconds, where the service names some."""
    return retry_after(answer.headers.get("retry-after"), datetime.now(UTC))


def _is_transient(status: int, failure: Exception) -> bool:
    """True also for a 409 while an earlier attempt is in progress."""
    return status in TRANSIENT or getattr(failure, "kind", None) == "under-way"


def content_of(answer: HttpResponse) -> Any:
    """Return a response's JSON; None if it is empty (204). Raises ApiError if it is not JSON."""
    if answer.content is None and answer.status != 204:
        raise ApiError(answer.status, "no-json", "the answer is not JSON: is this the address of Signoff?")
    return answer.content


def error_from(answer: HttpResponse) -> ApiError | Conflict:
    """Return the error that a response means: AlreadyClaimed, Conflict, or else ApiError."""
    problem = answer.content if isinstance(answer.content, dict) else {}
    if "type" not in problem or "detail" not in problem:
        words = f"answered {answer.status} without problem details: is this the address of Signoff?"
        return ApiError(answer.status, "no-problem", words)
    kind = str(problem["type"]).removeprefix("urn:signoff:")
    words = f"{problem['detail']} ({answer.status} {kind})"
    if kind == "claimed":
        return AlreadyClaimed(answer.status, kind, words, problem)
    if kind == "conflict":
        return Conflict(words)
    return ApiError(answer.status, kind, words, problem)

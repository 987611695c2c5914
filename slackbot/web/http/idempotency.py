"""`Idempotency-Key`: a call that is repeated with the same key is made once and answered the same.

Only answers that tell of success are kept: whatever was refused may be tried again with the same key.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from typing import Annotated

import structlog
from fastapi import Depends, Header, Request, Response
from fastapi.responses import JSONResponse

from agent.database.pools import Database
from agent.domain.api_keys import Principal
from agent.usecases import idempotency
from agent.usecases.idempotency import CallInProgress, KeyReused, Reservation, StoredResponse
from slackbot.web.http.context import web_context
from slackbot.web.http.problems import ProblemRaised, invalid, retry_later

log = structlog.get_logger(__name__)

HEADER = "Idempotency-Key"
_SHAPE = re.compile(r"[!-~]{1,255}\Z", re.ASCII)
_KEPT_HEADERS = ("location",)

Handle = Callable[[Request], Awaitable[Response]]


async def once(request: Request, principal: Principal, handle: Handle) -> Response:
    """Make this caller's call, unless it was made before with the same key. Raises ProblemRaised (409, 422) too."""
    key = request.headers.get(HEADER)
    if request.method != "POST" or key is None:
        return await handle(request)
    if not _SHAPE.match(key):
        raise invalid((HEADER, "has 1 to 255 visible ASCII characters"))
    db = web_context(request).db
    try:
        begun = await idempotency.reserve(db, principal.name, key, await _fingerprint(request))
    except KeyReused:
        words = f"This {HEADER} was used for another call; use a new one for each."
        raise ProblemRaised(422, "idempotency-key-reused", "Key used before", words) from None
    except CallInProgress:
        words = f"The call with this {HEADER} is under way; ask again for its answer."
        raise retry_later("under-way", "Under way", words, 1, status=409) from None
    return _again(begun) if isinstance(begun, StoredResponse) else await _first(request, handle, db, begun)


async def _first(request: Request, handle: Handle, db: Database, begun: Reservation) -> Response:
    try:
        response = await handle(request)
    except BaseException:
        await _quietly(idempotency.release(db, begun))
        raise
    is_json = response.headers.get("content-type", "").startswith("application/json")
    if 200 <= response.status_code < 300 and is_json and hasattr(response, "body"):
        headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
        kept = StoredResponse(response.status_code, json.loads(bytes(response.body)), headers)
        await _quietly(idempotency.store_response(db, begun, kept))
    else:
        await _quietly(idempotency.release(db, begun))
    return response


async def _quietly(work: Awaitable[None]) -> None:
    """What was done is done and has to be told; without this note a repetition waits until patience is over."""
    try:
        await work
    except Exception as error:
        log.warning("an answer was not kept", action="http.reply_not_kept", error=str(error))


def _again(kept: StoredResponse) -> Response:
    headers = {**kept.headers, "Idempotency-Replayed": "true"}
    return JSONResponse(kept.content, kept.status, headers=headers)


async def _fingerprint(request: Request) -> bytes:
    """SHA-256 over everything that the call says."""
    parts = [
        request.method.encode(),
        request.url.path.encode(),
        request.url.query.encode(),
        await request.body(),
    ]
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()


async def _header(
    key: Annotated[
        str | None,
        Header(
            alias=HEADER,
            pattern=r"^[!-~]+$",
            max_length=255,
            description="Makes a repetition of this very call safe for a day: it is made once and answered the same.",
        ),
    ] = None,
) -> None:
    """Names the header in the documentation of a route; `once` acts on it before the route is asked."""


IDEMPOTENT = Depends(_header)
"""For `dependencies` of every POST route."""

"""`Idempotency-Key`: a repeated call runs once and returns the same response.

Only successes are stored, encrypted with a key derived from the caller's API key, which the database does not have. A
response with a token or secret is not stored: a repeated claim finds its attempt and computes the token again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Header, Request, Response

from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.domain.api_keys import Principal
from agent.usecases import idempotency
from agent.usecases.calls.program_claims import TokenOf, random_token
from agent.usecases.idempotency import CallInProgress, KeyReused, Reservation, StoredResponse
from slackbot.web.http.context import web_context
from slackbot.web.http.problems import ProblemRaised, invalid, retry_later

HEADER = "Idempotency-Key"
_SHAPE = re.compile(r"[!-~]{1,255}\Z", re.ASCII)
_REPLAYED = "Idempotency-Replayed"
_KEPT_HEADERS = ("location",)
_ENCRYPTION = {"alg": "dir", "enc": "A256GCM"}

Handle = Callable[[Request], Awaitable[Response]]


async def once(request: Request, principal: Principal, handle: Handle) -> Response:
    """Run the call, or return an earlier call's stored response. Also raises ProblemRaised (409, 422)."""
    key = request.headers.get(HEADER)
    if request.method != "POST" or key is None:
        return await handle(request)
    if not _SHAPE.match(key):
        raise invalid((HEADER, "has 1 to 255 visible ASCII characters"))
    db = web_context(request).db
    try:
        hashed = hashlib.sha256(key.encode()).hexdigest()  # a program may use a secret as its key
        begun = await idempotency.reserve(db, principal.name, hashed, await _fingerprint(request))
    except KeyReused:
        raise _used_before() from None
    except CallInProgress:
        words = f"The call with this {HEADER} is in progress; repeat the call to get its response."
        raise retry_later("under-way", "In progress", words, 1, status=409) from None
    if isinstance(begun, Reservation):
        return await _first(request, handle, db, begun, key)
    if begun.content is None:  # not stored: the route recognizes the repetition
        response = await handle(request)
        response.headers[_REPLAYED] = "true"
        return response
    return _again(begun, _encryption_key(request, key))


async def _first(request: Request, handle: Handle, db: Database, begun: Reservation, key: str) -> Response:
    try:
        response = await handle(request)
    except BaseException:
        await _log_errors(idempotency.release(db, begun))
        raise
    is_json = response.headers.get("content-type", "").startswith("application/json")
    if 200 <= response.status_code < 300 and is_json and hasattr(response, "body"):
        headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
        content = None
        if not getattr(request.state, "has_secret", False):
            content = _encrypted(bytes(response.body), request, key)
        kept = StoredResponse(response.status_code, content, headers)
        await _log_errors(idempotency.store_response(db, begun, kept))
    else:
        await _log_errors(idempotency.release(db, begun))
    return response


async def _log_errors(work: Awaitable[None]) -> None:
    """The call took effect and must be answered. If storing fails, a repetition waits until the time limit."""
    try:
        await work
    except Exception as error:
        log_failure("a response was not stored", error, action="http.reply_not_kept")


# Loading cryptography takes 10 MB, and few programs send the header.


def _encrypted(content: bytes, request: Request, key: str) -> str:
    from joserfc import jwe  # noqa: PLC0415 - see above
    from joserfc.jwk import OctKey  # noqa: PLC0415

    return jwe.encrypt_compact(_ENCRYPTION, content, OctKey.import_key(_encryption_key(request, key)))


def _again(kept: StoredResponse, encryption: bytes) -> Response:
    """Raises ProblemRaised (422) if the response belongs to another API key of this name."""
    from joserfc import jwe  # noqa: PLC0415 - see above
    from joserfc.errors import JoseError  # noqa: PLC0415
    from joserfc.jwk import OctKey  # noqa: PLC0415

    try:
        content = jwe.decrypt_compact(str(kept.content), OctKey.import_key(encryption)).plaintext
    except (JoseError, ValueError):
        raise _used_before() from None
    headers = {**kept.headers, _REPLAYED: "true"}
    return Response(content, kept.status, headers=headers, media_type="application/json")


def _encryption_key(request: Request, key: str) -> bytes:
    """Derived from the caller's API key, for this response only."""
    return _derived(request, f"{HEADER}: {key}")


def _derived(request: Request, purpose: str) -> bytes:
    """32 bytes that only the caller's API key gives."""
    _, _, presented = request.headers["Authorization"].partition(" ")
    return hmac.digest(presented.strip().encode(), purpose.encode(), "sha256")


def _used_before() -> ProblemRaised:
    words = f"This {HEADER} was used for another call; use a new one for each."
    return ProblemRaised(422, "idempotency-key-reused", "Key already used", words)


async def _fingerprint(request: Request) -> bytes:
    """SHA-256 of the whole call except a claim's facts, which change during an attempt."""
    body = await request.body()
    if request.url.path.endswith("/claim") and b'"facts"' in body:
        values = await request.json()
        if isinstance(values, dict):  # validation refuses anything else
            body = json.dumps({name: values[name] for name in sorted(values) if name != "facts"}).encode()
    parts = [request.method.encode(), request.url.path.encode(), request.url.query.encode(), body]
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()


_Key = Annotated[
    str | None,
    Header(
        alias=HEADER,
        pattern=r"^[!-~]+$",
        max_length=255,
        description="Makes repeating this call safe for a day: it runs once and always gets the same response.",
    ),
]


async def _header(key: _Key = None) -> None:
    """Documents the header on a route; `once` handles it before."""


IDEMPOTENT = Depends(_header)
"""For `dependencies` of every POST route."""


async def has_secret(request: Request) -> None:
    """A dependency of routes whose response must not be stored. A repetition calls the route again."""
    request.state.has_secret = True


async def _tokens(request: Request, key: _Key = None) -> TokenOf:
    await has_secret(request)
    if key is None:
        return random_token

    def token_of(execution_id: UUID) -> str:
        return urlsafe_b64encode(_derived(request, f"token of {execution_id}: {key}")).rstrip(b"=").decode()

    return token_of


ClaimTokens = Annotated[TokenOf, Depends(_tokens)]
"""With an `Idempotency-Key`, repeating a claim gives the same tokens."""

"""Admit only signed requests to Bolt, and log no body.

The rules are Slack's, "Verifying requests from Slack": `v0=` + HMAC-SHA256 over `v0:{timestamp}:{body}`, at most five
minutes old. Bolt's own verification is off: it answers 500 to a malformed timestamp, and logs refused bodies.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from slack_bolt.adapter.starlette.async_handler import to_starlette_response
from slack_bolt.async_app import AsyncApp, AsyncBoltRequest
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from agent.database.precedence import Precedence, Rank
from agent.fault_points import point
from slackbot.slack.metrics import CLICK_TO_ACK
from slackbot.slack_api.manifest import EVENTS_PATH

log = logging.getLogger(__name__)

MAX_BODY = 1_000_000
"""Bytes. Slack's largest payloads (a submission with 250 KB of view) stay well below."""

MAX_SSL_CHECK = 500
"""Bytes read of an unsigned body: enough for `ssl_check=1` and the old verification token."""

SSL_CHECK_SECONDS = 0.5
"""Seconds for an unsigned body, which comes with its headers."""

MAX_AGE = 300
"""Seconds that a timestamp may be off (Slack's rule for replays)."""

_SECONDS = re.compile(rb"[0-9]{1,12}")
_SIGNATURE = re.compile(rb"v0=[0-9a-f]{64}")
_UNESCAPED = tuple((f"%{ord(character):02X}", character) for character in '"{}[]:, ')


class SignedEndpoint:
    """An HTTP endpoint for Slack that passes only fresh, correctly signed payloads to Bolt."""

    def __init__(
        self,
        app: AsyncApp,
        signing_secret: str,
        precedence: Precedence | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not signing_secret:
            raise ValueError("the HTTP endpoint needs a signing secret")
        self._app = app
        self._key = signing_secret.encode()
        self._precedence = precedence or Precedence()
        self._clock = clock

    def route(self) -> Route:
        return Route(EVENTS_PATH, self.handle, methods=["POST"])

    async def handle(self, request: Request) -> Response:
        """401: unsigned or outdated. 413: too long. 400: unreadable. 200, empty: Slack's certificate check, or a kind
        of payload without a listener, as over Socket Mode: people would read that Signoff does not respond.
        """
        stamp = self._fresh_stamp(request)
        claimed = _only(request, b"x-slack-signature")
        if stamp is None or claimed is None or not _SIGNATURE.fullmatch(claimed):
            unsigned = await _read_unsigned(request)
            return PlainTextResponse("") if _is_ssl_check(unsigned) else _refuse(401, "headers")
        body = await _read(request, MAX_BODY)
        if body is None:
            return _refuse(413, "size")
        if _is_ssl_check(body):
            return PlainTextResponse("")
        if not hmac.compare_digest(self._signature(stamp, body), claimed):
            return _refuse(401, "signature")
        request.state.known = "slack"  # as `web/http/connections.py` calls the owner
        bolt_request = _bolt_request(request, body)
        if bolt_request is None:
            return _refuse(400, "body")
        if not _has_listener(bolt_request.body):
            return PlainTextResponse("")
        with CLICK_TO_ACK.labels("http").time(), self._precedence.at_work(Rank.PERSON):
            response = to_starlette_response(await self._app.async_dispatch(bolt_request))
        response.background = _ACKNOWLEDGED
        return response

    def _fresh_stamp(self, request: Request) -> bytes | None:
        stamp = _only(request, b"x-slack-request-timestamp")
        if stamp is None or not _SECONDS.fullmatch(stamp):
            return None
        return stamp if abs(self._clock() - int(stamp)) <= MAX_AGE else None

    def _signature(self, stamp: bytes, body: bytes) -> bytes:
        return b"v0=" + hmac.new(self._key, b"v0:" + stamp + b":" + body, hashlib.sha256).hexdigest().encode()


async def _acknowledged() -> None:
    point("after_ack")


_ACKNOWLEDGED = BackgroundTask(_acknowledged)


def _only(request: Request, name: bytes) -> bytes | None:
    """`None` when missing or repeated."""
    values = [value for key, value in request.headers.raw if key.lower() == name]
    return values[0] if len(values) == 1 else None


async def _read(request: Request, most: int) -> bytes | None:
    """`None`: too long, or incomplete."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                return None
    except ClientDisconnect:
        return None
    return bytes(body)


async def _read_unsigned(request: Request) -> bytes | None:
    """Do not wait for a stranger's body."""
    try:
        async with asyncio.timeout(SSL_CHECK_SECONDS):
            return await _read(request, MAX_SSL_CHECK)
    except TimeoutError:
        return None


def _is_ssl_check(body: bytes | None) -> bool:
    """Whether Slack only checks our certificate, as for slash commands."""
    if body is None or len(body) > MAX_SSL_CHECK:
        return False
    try:
        form = form_fields(body.decode())
    except ValueError:
        return False
    return form.get("ssl_check") == "1" and form.keys() <= {"ssl_check", "token"}


def _bolt_request(request: Request, body: bytes) -> AsyncBoltRequest | None:
    """`None` if unreadable. Bolt would lose a command whose text has the word "payload"."""
    try:
        said = _parsed(body.decode(), _only(request, b"content-type") or b"")
        if not _is_whole(said):
            return None
        headers: dict[str, str | Sequence[str]] = {
            name: value for name, value in request.headers.items() if name.startswith("x-slack-retry-")
        }
        return AsyncBoltRequest(body=said, headers=headers, mode="socket_mode")
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        return None  # Bolt looks for its context in an object of an unexpected shape


def _parsed(text: str, content_type: bytes) -> dict[str, Any]:
    """Raises ValueError."""
    if content_type.split(b";")[0].strip().lower() != b"application/json":
        form: dict[str, Any] = form_fields(text)
        if "command" in form:
            return form
        text = form["payload"]
    said = json.loads(text)
    if not isinstance(said, dict):
        raise ValueError("not an object")  # noqa: TRY004 - of the sender's making, like any other bad text
    return said


def form_fields(text: str) -> dict[str, str]:
    """A URL-encoded form's fields, each with its last value. Raises ValueError.

    `parse_qsl` decodes escapes one by one, in Python, so JSON's commonest are replaced before: none of their
    characters has a meaning in a form.
    """
    for escape, character in _UNESCAPED:
        text = text.replace(escape, character)
    return dict(parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict"))


# What listeners rely on: paths and types of fields.
_WHOLE: dict[str, tuple[tuple[tuple[str, ...], type], ...]] = {
    "block_actions": (
        (("user", "id"), str),
        (("container",), dict),
        (("actions",), list),
    ),
    "view_submission": ((("user", "id"), str), (("view", "state"), dict)),
    "shortcut": ((("user", "id"), str), (("callback_id",), str), (("trigger_id",), str)),
    "message_action": (
        (("user", "id"), str),
        (("callback_id",), str),
        (("trigger_id",), str),
        (("channel", "id"), str),
        (("message",), dict),
    ),
    "event_callback": ((("event", "type"), str),),
    "app_rate_limited": (),
}
_COMMAND = tuple(((name,), str) for name in ("command", "team_id", "user_id", "channel_id", "trigger_id"))


def _is_whole(said: dict[str, Any]) -> bool:
    """Kinds without a listener are not checked."""
    needed = _COMMAND if "command" in said else _WHOLE.get(str(said.get("type")), ())
    actions = said.get("actions") if said.get("type") == "block_actions" else [{}]
    fitting = isinstance(actions, list) and bool(actions) and all(isinstance(each, dict) for each in actions)
    return fitting and all(isinstance(_at(said, path), kind) for path, kind in needed)


def _has_listener(said: Mapping[str, Any]) -> bool:
    """Bolt would hand other kinds with a button's id to its listener."""
    return "command" in said or said.get("type") in (*_WHOLE, "url_verification")


def _at(said: Any, path: Sequence[str]) -> Any:
    for step in path:
        said = said.get(step) if isinstance(said, dict) else None
    return said


def _refuse(status: int, because: str) -> Response:
    log.info(
        "refused a request to %s: %s",
        EVENTS_PATH,
        because,
        extra={"action": "edge_refused", "status": status},
    )
    return PlainTextResponse("", status_code=status)

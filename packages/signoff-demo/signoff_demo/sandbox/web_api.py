"""The Web API: calls are checked, recorded, and answered."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from signoff_demo.sandbox.arguments import Arguments
from signoff_demo.sandbox.faults import FaultKind, Faults
from signoff_demo.sandbox.methods import METHODS, Method, TokenKind
from signoff_demo.sandbox.rate_limits import RateLimits
from signoff_demo.sandbox.refusal import Json, SandboxRefusal
from signoff_demo.sandbox.workspace import SandboxWorkspace


@dataclass(frozen=True)
class ApiCall:
    """`outcome` is "ok", Slack's error code, or the injected fault."""

    method: str
    args: Json
    at: float
    outcome: str
    response: Json | None


Finish = Callable[[str, Json], Json]
"""Adds what only the server knows (URLs) to a method's response."""


class WebApi:
    """`calls` records all calls, refused ones too."""

    def __init__(
        self,
        workspace: SandboxWorkspace,
        *,
        bot_token: str,
        app_token: str,
        faults: Faults,
        rate_limits: RateLimits,
        finish: Finish,
    ) -> None:
        self.workspace = workspace
        self.calls: list[ApiCall] = []
        self._tokens = {bot_token: TokenKind.BOT, app_token: TokenKind.APP}
        self._faults = faults
        self._rate_limits = rate_limits
        self._finish = finish

    async def handle(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["method"]
        try:
            values, refusal = await _body(request), None
        except SandboxRefusal as error:
            values, refusal = {}, error
        fault = self._faults.take_fault(name)
        if fault is None or fault.kind in (FaultKind.SLOW, FaultKind.RESET_AFTER_ACCEPT):
            response = self._answer(request, name, values, refusal)
            if fault is not None and fault.kind is FaultKind.SLOW:
                await asyncio.sleep(fault.seconds)
            elif fault is not None:
                return _cut(request)
            return response
        self._record(name, values, fault.kind.value, None)
        if fault.kind is FaultKind.RATELIMITED:
            return _too_many(int(fault.seconds))
        if fault.kind is FaultKind.HTTP_500:
            return web.Response(
                status=500, text="<!DOCTYPE html><title>Server Error</title>", content_type="text/html"
            )
        if fault.kind is FaultKind.ERROR:
            return web.json_response(SandboxRefusal(fault.code).body())
        await asyncio.sleep(fault.seconds)
        return _cut(request)

    def _answer(
        self, request: web.Request, name: str, values: Json, refusal: SandboxRefusal | None
    ) -> web.Response:
        scopes = {"x-oauth-scopes": ",".join(self.workspace.bot.scopes)}
        try:
            if refusal is not None:
                raise refusal
            method = self._authorised(request, name, values)
            if wait := self._rate_limits.retry_after(name, method.tier, str(values.get("channel", ""))):
                self._record(name, values, "ratelimited", None)
                return _too_many(wait)
            body = {"ok": True, **method.handler(self.workspace, Arguments(values))}
            body = self._finish(name, body)
        except SandboxRefusal as error:
            body = error.body()
        self._record(name, values, "ok" if body["ok"] else body["error"], body)
        return web.json_response(body, headers=scopes)

    def _authorised(self, request: web.Request, name: str, values: Json) -> Method:
        method = METHODS.get(name)
        if method is None:
            raise SandboxRefusal("unknown_method", req_method=name)
        if method.token is TokenKind.NONE:
            return method
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            token = str(values.get("token") or "")
        if not token:
            raise SandboxRefusal("not_authed")
        kind = self._tokens.get(token.strip())
        if kind is None:
            raise SandboxRefusal("invalid_auth")
        if kind is not method.token:
            raise SandboxRefusal("not_allowed_token_type")
        granted = self.workspace.bot.scopes
        if method.scopes and not set(method.scopes) & set(granted):
            raise SandboxRefusal("missing_scope", needed=method.scopes[0], provided=",".join(granted))
        return method

    def _record(self, name: str, values: Json, outcome: str, response: Json | None) -> None:
        args = {key: value for key, value in values.items() if key != "token"}
        self.calls.append(ApiCall(name, args, time.time(), outcome, response))
        self.workspace.changes.wake()


async def _body(request: web.Request) -> Json:
    values: Json = dict(request.query)
    if request.method != "POST":
        return values
    kind = request.content_type
    if kind == "application/json":
        try:
            sent: Any = json.loads(await request.text() or "{}")
        except ValueError:
            raise SandboxRefusal("invalid_json") from None
        if not isinstance(sent, dict):
            raise SandboxRefusal("json_not_object")
        return values | sent
    if kind in ("application/x-www-form-urlencoded", "multipart/form-data", "application/octet-stream"):
        form = await request.post()
        return values | {name: value for name, value in form.items() if isinstance(value, str)}
    raise SandboxRefusal("invalid_post_type")


def _too_many(seconds: int) -> web.Response:
    body = {"ok": False, "error": "ratelimited"}
    return web.json_response(body, status=429, headers={"Retry-After": str(seconds)})


def _cut(request: web.Request) -> web.Response:
    """Reset the TCP connection, so that the caller cannot know the outcome."""
    transport = request.transport
    if transport is not None:
        raw_socket = transport.get_extra_info("socket")
        if raw_socket is not None:
            # Zero linger turns the close into a reset.
            raw_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return web.Response(status=500)

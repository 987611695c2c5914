"""A loopback server for the OpenAI Chat Completions API, with a *scripted* model.

Every answer says that it is scripted. It follows ``model_script`` unless tests queue turns and faults with
:meth:`ScriptedModel.script`. Run it alone with ``python -m signoff_demo.sandbox.model --port 8001``.
"""

import argparse
import asyncio
import contextlib
import hmac
import inspect
import json
import socket
import struct
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, NoReturn, Self, TypeAlias

from aiohttp import web

from signoff_demo.sandbox.local_requests import only_this_machine
from signoff_demo.sandbox.model_script import MODEL_NAME, ScriptedCall, ScriptedTurn, answer
from signoff_demo.sandbox.model_wire import chunks, completion, model_card

__all__ = ["MODEL_NAME", "ModelFault", "ScriptedCall", "ScriptedModel", "ScriptedTurn"]

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ModelFault:
    """A failure of the scripted model instead of an answer; `retry_after` is in seconds."""

    kind: Literal["status", "hang", "reset", "garbage"]
    status: int = 200
    retry_after: float | None = None

    @classmethod
    def http(cls, status: int, retry_after: float | None = None) -> Self:
        """An error in OpenAI's format; ``retry_after`` in seconds."""
        return cls("status", status, retry_after)

    @classmethod
    def hang(cls) -> Self:
        return cls("hang")

    @classmethod
    def reset(cls) -> Self:
        """Reset the connection (TCP RST) after reading the request."""
        return cls("reset")

    @classmethod
    def garbage(cls) -> Self:
        """Status 200 and ``application/json`` with a truncated body."""
        return cls("garbage")


Answer: TypeAlias = str | ScriptedTurn | ModelFault | Sequence[tuple[str, Mapping[str, Any] | str]]
Script: TypeAlias = Answer | Callable[[dict[str, Any]], Answer | Awaitable[Answer]]


class ScriptedModel:
    """Listens on 127.0.0.1 only. Use it as ``async with ScriptedModel(port=0) as model``.

    ``requests`` holds the body of every accepted chat request, in order. With ``api_key`` set, other keys get 401.
    Without ``lists_models`` it has no ``GET /models``, like several compatible servers.
    """

    def __init__(self, port: int = 0, api_key: str | None = None, *, lists_models: bool = True) -> None:
        self.requests: list[dict[str, Any]] = []
        self._wanted_port = port
        self._api_key = api_key
        self._lists_models = lists_models
        self._queue: deque[Script] = deque()
        self._arrived = asyncio.Condition()
        self._closing = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Raises OSError if the port is in use."""
        app = web.Application(client_max_size=32 * 1024 * 1024, middlewares=[only_this_machine])
        if self._lists_models:
            app.router.add_get("/v1/models", self._models)
            app.router.add_get("/v1/models/{id}", self._model)
        app.router.add_post("/v1/chat/completions", self._completions)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, _LOOPBACK, self._wanted_port).start()

    async def stop(self) -> None:
        """Release hanging requests too."""
        self._closing.set()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def port(self) -> int:
        if self._runner is None:
            raise RuntimeError("the scripted model has not been started")
        return int(self._runner.addresses[0][1])

    @property
    def base_url(self) -> str:
        return f"http://{_LOOPBACK}:{self.port}/v1"

    def script(self, *turns: Script) -> None:
        """Queue turns, each used once; afterwards the default script answers.

        A turn is a text, a list of ``(tool name, arguments)``, a :class:`ScriptedTurn`, a :class:`ModelFault`, or a
        sync or async function of the request's JSON that returns one of these. Arguments given as a string are sent
        verbatim.
        """
        self._queue.extend(turns)

    async def wait_for_request(self, number: int = 1, timeout: float = 10.0) -> dict[str, Any]:
        """Numbers begin at 1. Raises TimeoutError after ``timeout`` seconds."""
        async with asyncio.timeout(timeout), self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= number)
        return self.requests[number - 1]

    async def _models(self, request: web.Request) -> web.Response:
        self._check_key(request)
        return web.json_response({"object": "list", "data": [model_card()]})

    async def _model(self, request: web.Request) -> web.Response:
        self._check_key(request)
        if request.match_info["id"] != MODEL_NAME:
            _refuse(404, f"the only model here is {MODEL_NAME}", code="model_not_found")
        return web.json_response(model_card())

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        self._check_key(request)
        body = await _read(request)
        async with self._arrived:
            self.requests.append(body)
            self._arrived.notify_all()
        turn = await self._next(body)
        if isinstance(turn, ModelFault):
            return await self._fail(turn, request)
        if not body.get("stream"):
            return web.json_response(completion(turn, body))
        return await _stream(turn, body, request)

    async def _next(self, body: dict[str, Any]) -> ScriptedTurn | ModelFault:
        turn: Any = self._queue.popleft() if self._queue else answer
        if callable(turn):
            turn = turn(body)
        if inspect.isawaitable(turn):
            turn = await turn
        if isinstance(turn, str):
            return ScriptedTurn(turn)
        if isinstance(turn, ScriptedTurn | ModelFault):
            return turn
        return ScriptedTurn(None, tuple(ScriptedCall(name, arguments) for name, arguments in turn))

    async def _fail(self, fault: ModelFault, request: web.Request) -> web.StreamResponse:
        if fault.kind == "status":
            after = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
            _refuse(fault.status, "a fault that the script asked for", after)
        if fault.kind == "garbage":
            return web.Response(text='{"id": "chatcmpl-', content_type="application/json")
        if fault.kind == "hang":
            await self._closing.wait()
        _reset(request)
        return web.Response(status=503)

    def _check_key(self, request: web.Request) -> None:
        if self._api_key is None:
            return
        sent = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(sent.encode(), self._api_key.encode()):
            _refuse(401, "Incorrect API key provided.")


async def _read(request: web.Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except ValueError:
        _refuse(400, "the body is not JSON")
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list) or not body.get("model"):
        _refuse(400, "a chat request needs a model and a list of messages")
    return dict(body)


def _refuse(
    status: int, message: str, headers: Mapping[str, str] | None = None, *, code: str | None = None
) -> NoReturn:
    kinds = {429: "rate_limit_error", 401: "authentication_error"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
    error = {"message": message, "type": kind, "param": None, "code": code}
    raise _Refused(status, json.dumps({"error": error}), headers)


class _Refused(web.HTTPException):
    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None) -> None:
        self.status_code = status
        super().__init__(text=text, content_type="application/json", headers=headers)


def _reset(request: web.Request) -> None:
    """With zero linger, the kernel sends RST at once."""
    if request.transport is None:
        return
    if (connection := request.transport.get_extra_info("socket")) is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.transport.abort()


async def _stream(turn: ScriptedTurn, body: Mapping[str, Any], request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    for chunk in chunks(turn, body):
        await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response


async def _serve(port: int, api_key: str | None) -> None:
    async with ScriptedModel(port, api_key) as model:
        sys.stdout.write(f"scripted model {MODEL_NAME} at {model.base_url} (rules, not a language model)\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m signoff_demo.sandbox.model", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    parser.add_argument("--api-key", help="refuse every other key")
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(options.port, options.api_key))


if __name__ == "__main__":
    main()

"""Half-read connections and unread responses of unknown callers cost little, and delay no complete request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from slackbot.web.http.connections import ConnectionLimits
from slackbot.web.http.server import DEFAULT_LIMITS, HttpServer
from tests.integration.web.conftest import Street, until

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

HEAD = b"POST /pending HTTP/1.1\r\nHost: localhost\r\n"
PROMISE = HEAD + b"Content-Length: 100000\r\n\r\n"


class Stranger:
    """Somebody without a key who opens connections, says a part of something, and waits."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.held: list[Streams] = []

    async def says(self, words: bytes, times: int = 1) -> None:
        for _ in range(times):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(words)
            self.held.append((reader, writer))

    async def answer(self, at: int = 0) -> bytes:
        """All bytes received on this connection until it is closed."""
        try:
            return await asyncio.wait_for(self.held[at][0].read(), 20)
        except ConnectionError:
            return b""

    def leaves(self) -> None:
        for _, writer in self.held:
            writer.close()


@asynccontextmanager
async def stranger(port: int | None) -> AsyncIterator[Stranger]:
    assert port is not None
    somebody = Stranger(port)
    yield somebody
    somebody.leaves()


async def test_two_strangers_hold_up_nobody(site: Street) -> None:
    """One sends heads that never end, one bodies that never end, 400 each: a caller with a key is answered on old and
    new connections, at most 256 unknown ones stay, and the oldest is closed first.
    """
    program, grace = await site.program(), await site.reviewer()
    assert (await program.ask("r-0")).status_code == 201
    open_now = site.service.web.http._server.server_state.connections
    async with stranger(site.service.port) as one, stranger(site.service.port) as other:
        for number in range(1, 5):
            await asyncio.gather(one.says(HEAD, 100), other.says(PROMISE, 100))
            assert (await program.ask(f"r-{number}")).status_code == 201
            await grace.decides(f"r-{number}")
            fresh = await site.client(program.headers["Authorization"].removeprefix("Bearer "))
            assert (await fresh.get(f"/pending/r-{number}")).json()["status"] == "approved"

        async def few() -> bool:
            return len(open_now) <= DEFAULT_LIMITS.half_read + 10

        await until(few)
        assert await one.answer(0) == b""
        await other.answer(0)
        await one.says(HEAD + b"\r\n")
        assert b" 401 " in await one.held[-1][0].readline()
    assert (await program.get("/pending/r-0")).status_code == 200


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"X: " + b"a" * 200_000,
        HEAD + b"X: " + b"a" * 70_000 + b"\r\n\r\n",
        HEAD + b"".join(b"X-%d: %s\r\n" % (number, b"a" * 1000) for number in range(80)),
        b"GET /" + b"a" * 200_000,
        HEAD + b"Content-Length: 0\r\n\r\n" + HEAD + b"X: " + b"a" * 600_000,
    ],
    ids=["a header without end", "a long header", "many headers", "a long address", "the second request"],
)
async def test_a_head_has_64_kilobytes(site: Street, head: bytes) -> None:
    """More is 431 and the end of the connection, also where the head never ends."""
    async with stranger(site.service.port) as somebody:
        await somebody.says(head)
        answer = await somebody.answer()
    assert not answer or b" 431 " in answer
    assert b" 500 " not in answer


@asynccontextmanager
async def served(limits: ConnectionLimits) -> AsyncIterator[HttpServer]:
    """A server that echoes, that takes its time at `/slow`, and that says much at `/large`."""

    async def echo(request: Request) -> Response:
        body = await request.body()
        if request.url.path == "/slow":
            await asyncio.sleep(4 * limits.body_seconds)
        request.state.known = "known" in request.headers
        return PlainTextResponse(body)

    async def large(request: Request) -> Response:
        request.state.known = "known" in request.headers
        return Response(LARGE)

    async def early(_: Request) -> Response:
        return PlainTextResponse("no", 401)

    routes = [Route(path, echo, methods=["POST"]) for path in ("/", "/slow")]
    app = Starlette(routes=[*routes, Route("/early", early, methods=["POST"]), Route("/large", large)])
    server = HttpServer(app, host="127.0.0.1", port=0, drain_seconds=1, limits=limits)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


LARGE = bytes(2**25)
"""More than the kernel keeps for a connection."""


def get_large(more: str = "", version: str = "1.1") -> bytes:
    return f"GET /large HTTP/{version}\r\nHost: x\r\n{more}\r\n".encode()


def post(path: str, body: str = "", *, length: int | None = None, more: str = "") -> bytes:
    size = len(body) if length is None else length
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n{more}\r\n{body}".encode()


SHORT = ConnectionLimits(head_seconds=0.1, body_seconds=0.1, linger=0.1, unread=0.1, idle=1)


@pytest.mark.parametrize(
    ("said", "statuses"),
    [
        (b"", []),
        (b"POST", []),
        (HEAD, []),
        (post("/", "abc", length=10), []),
        (post("/early", "abc", length=10), [b"401"]),
        (post("/", "abc") + b"POST", [b"200"]),
        (post("/", "abc") + b"\r\n", [b"200"]),
        (post("/", "abc") + post("/", "abc", length=10), [b"200"]),
    ],
    ids=[
        "nothing",
        "a word",
        "half a head",
        "half a body",
        "answered early",
        "half a second",
        "a line",
        "two",
    ],
)
async def test_what_is_half_said_is_closed_in_time(said: bytes, statuses: list[bytes]) -> None:
    """Nobody keeps a connection by saying half of something, before or after an answer."""
    async with served(SHORT) as server, stranger(server.port) as somebody:
        await somebody.says(said)
        answered = await somebody.answer()
    assert [line.split()[1] for line in answered.split(b"\r\n") if line.startswith(b"HTTP/1.1")] == statuses


def test_the_service_waits_10_seconds_for_a_head_and_30_for_a_body() -> None:
    """A server without settings of its own has the limits that the security page names."""
    server = HttpServer(Starlette(), host="127.0.0.1", port=0, drain_seconds=1)
    limits = cast("Any", server._server.config.http).keywords["limits"]
    assert (limits.head_bytes, limits.head_seconds, limits.body_seconds) == (65_536, 10, 30)
    assert (limits.unread, limits.half_read) == (30, 256)


async def test_an_answer_has_all_the_time_that_it_takes() -> None:
    """The time limit is for the caller's input; a long-poll continues."""
    async with served(SHORT) as server, stranger(server.port) as somebody:
        await somebody.says(post("/slow", "abc", more="Connection: close\r\n"))
        assert (await somebody.answer()).endswith(b"abc")


async def responded(server: HttpServer, times: int) -> None:
    """Wait until the server has made so many responses."""

    async def enough() -> bool:
        return server._server.server_state.total_requests >= times

    await until(enough)


async def left_open(server: HttpServer, most: int) -> None:
    """Wait until the server has no more connections than this."""

    async def few() -> bool:
        return len(server._server.server_state.connections) <= most

    await until(few, 10)


@pytest.mark.parametrize(
    ("said", "then"),
    [
        (get_large("Connection: close\r\n"), b""),
        (get_large(version="1.0"), b""),
        (get_large("Connection: close\r\nKnown: 1\r\n"), b""),
        (get_large(), b""),
        (get_large("Known: 1\r\n"), b""),
        (get_large(), get_large()),
        (get_large("Known: 1\r\n"), b"nonsense\r\n\r\n"),
        (get_large("Known: 1\r\n"), HEAD + b"X: " + b"a" * 2_000),
    ],
    ids=["closes", "1.0", "known", "idles", "known, idles", "two", "known, nonsense", "known, a long head"],
)
async def test_a_response_that_is_not_read_is_given_up(said: bytes, then: bytes) -> None:
    """Nobody keeps a connection by asking for much and reading nothing, whatever they say next."""
    async with served(replace(SHORT, head_bytes=1_000)) as server, stranger(server.port) as somebody:
        await somebody.says(said)
        await responded(server, 1)
        somebody.held[0][1].write(then)
        await left_open(server, 0)


@pytest.mark.parametrize(
    ("said", "then"),
    [(get_large("Connection: close\r\n"), b""), (get_large(), get_large())],
    ids=["closes", "two"],
)
async def test_of_unread_responses_the_oldest_are_given_up(said: bytes, then: bytes) -> None:
    """Connections whose responses strangers do not read count among those that are limited."""
    async with served(ConnectionLimits(half_read=2)) as server, stranger(server.port) as crowd:
        for number in range(1, 7):
            await crowd.says(said)
            await responded(server, number)
            crowd.held[-1][1].write(then)
        await left_open(server, 2)


async def test_a_slow_reader_gets_all_of_a_response() -> None:
    """The time begins anew whenever a stranger has read something."""
    limits = ConnectionLimits(unread=0.5)
    async with served(limits) as server, stranger(server.port) as somebody:
        await somebody.says(get_large("Connection: close\r\n"))
        await responded(server, 1)
        reader, received = somebody.held[0][0], 0
        slow_until = time.monotonic() + 3 * limits.unread
        while piece := await reader.read(2**16):
            received += len(piece)
            if time.monotonic() < slow_until:
                await asyncio.sleep(0.01)
    assert received > len(LARGE)


async def test_somebody_known_may_pause() -> None:
    """A caller with a key who reads nothing for a while gets the rest, when a stranger is long given up."""
    async with served(ConnectionLimits(unread=0.1)) as server, stranger(server.port) as somebody:
        await somebody.says(get_large("Known: 1\r\n"))
        await responded(server, 1)
        await somebody.says(get_large())
        await responded(server, 2)
        await left_open(server, 1)
        reader, _ = somebody.held[0]
        await reader.readuntil(b"\r\n\r\n")
        assert len(await reader.readexactly(len(LARGE))) == len(LARGE)


@pytest.mark.parametrize("known", [False, True])
async def test_only_strangers_give_way_while_they_idle(known: bool) -> None:
    """Among too many connections that idle, the oldest is closed, unless somebody has proved who they are on it."""
    limits = ConnectionLimits(half_read=2)
    async with served(limits) as server, stranger(server.port) as first, stranger(server.port) as others:
        await first.says(post("/", "abc", more="Known: 1\r\n" if known else ""))
        reader, writer = first.held[0]
        await reader.readuntil(b"abc")
        await others.says(HEAD, 3)
        await others.answer(0)
        writer.write(post("/", "def", more="Connection: close\r\n"))
        assert (await first.answer()).endswith(b"def") is known


def test_an_idle_connection_outlives_the_pools_of_clients() -> None:
    """The client or its load balancer (60 s) closes an idle connection first, or requests get lost."""
    server = HttpServer(Starlette(), host="127.0.0.1", port=0, drain_seconds=1)
    assert server._server.config.timeout_keep_alive > max(60, httpx.Limits().keepalive_expiry or 0)

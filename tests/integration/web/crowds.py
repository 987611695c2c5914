"""Callers who hold connections of a service with few open files, in every way there is, and others who need it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx
import psutil

from agent.database.pools import Database
from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from signoff_demo.sandbox import SlackSandbox
from tests.integration.crash.process import Serve
from tests.integration.service.conftest import NO_TLS, POLICY, a_house
from tests.integration.web.conftest import ADA, GRACE, LINUS

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

IN_TIME = 10.0
"""Seconds in which everybody else is served."""


@dataclass
class Town:
    """A service as a process, and a key that wants all of it."""

    serve: Serve
    slack: SlackSandbox
    db: Database
    health_port: int
    greedy: str = ""
    request: str = ""
    held: list[Streams] = field(default_factory=list)

    def url(self, port: int | None = None) -> str:
        return f"http://127.0.0.1:{port or self.serve.port}"

    @property
    def process(self) -> psutil.Process:
        assert self.serve._process is not None
        return psutil.Process(self.serve._process.pid)

    async def key(self, name: str, *scopes: Scope) -> str:
        owner = GRACE if Scope.DECIDE in scopes else ADA
        return await api_keys.create(self.db, name, scopes, by="test", owner=owner, per_minute=1_000_000)

    def caller(self, secret: str, seconds: float = IN_TIME) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {secret}"}
        return httpx.AsyncClient(base_url=self.url(), headers=headers, timeout=seconds, verify=NO_TLS)

    async def ask(self, secret: str) -> str:
        body = {"request_id": str(uuid4()), "action_description": "Tidy up"}
        async with self.caller(secret) as caller:
            answer = await caller.post("/pending", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def get(self, path: str, more: str = "") -> bytes:
        return f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.greedy}\r\n{more}\r\n".encode()

    async def hold(self, words: bytes, times: int) -> list[Streams]:
        """Open connections, say this on each, and keep them whatever comes."""
        opened = []
        for _ in range(times):
            small = socket.socket()
            small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # so that little stays unread
            small.setblocking(False)
            await asyncio.get_running_loop().sock_connect(small, ("127.0.0.1", self.serve.port))
            reader, writer = await asyncio.open_connection(sock=small, limit=2**12)
            writer.write(words)
            opened.append((reader, writer))
        self.held += opened
        return opened

    async def is_well(self) -> None:
        """Health answers, Slack is answered, and an honest program asks, waits and is told."""
        async with httpx.AsyncClient(timeout=IN_TIME, verify=NO_TLS) as anybody:
            for address in (self.url(), self.url(self.health_port)):
                assert (await anybody.get(f"{address}/healthz")).status_code == 200
                assert (await anybody.get(f"{address}/readyz")).status_code == 200
        said = await self.slack.person(LINUS.user_id).command("/approvals", "", "C0REVIEW")
        assert said.acked, said
        name = uuid4().hex[:8]
        asks, decides = (
            await self.key(f"asks-{name}", Scope.REQUEST),
            await self.key(f"decides-{name}", Scope.DECIDE),
        )
        request = await self.ask(asks)
        async with self.caller(asks, 20.0) as program, self.caller(decides) as reviewer:
            waits = asyncio.create_task(program.get(f"/pending/{request}?wait=20"))
            answer = await reviewer.post(f"/approve/{request}", json={"decision": "approved", "revision": 1})
            assert answer.status_code == 200, answer.text
            assert (await waits).json()["status"] == "approved"

    async def leave(self) -> None:
        for _, writer in self.held:
            writer.transport.abort()
        self.held.clear()
        await asyncio.sleep(0)


@asynccontextmanager
async def town(url: str, folder: Path, open_files: int) -> AsyncIterator[Town]:
    (folder / "checkpoints.toml").write_text(POLICY)
    async with a_house(url, "http") as house:
        settings = house.environment | {
            "OPEN_FILES": str(open_files),
            "SIGNOFF_ROLES": "web",
            "SIGNOFF_HEALTH_PORT": "0",
            "SIGNOFF_LOG_FORMAT": "json",
        }
        serve = Serve(settings, folder)
        await serve.start()
        try:
            house.slack.request_url = f"http://127.0.0.1:{serve.port}/slack/events"
            await serve.says('"service.started"')
            [started] = [line for line in serve.lines if '"service.started"' in line]
            here = Town(serve, house.slack, house.db, json.loads(started)["health_port"])
            here.greedy = await here.key("greedy", Scope.REQUEST, Scope.READ, Scope.EXECUTE)
            here.request = await here.ask(here.greedy)
            yield here
            await here.leave()
        finally:
            await serve.kill()


Way = Callable[[Town], Awaitable[bytes]]


async def waits(here: Town) -> bytes:
    return here.get(f"/pending/{here.request}?wait=300")


async def executors(here: Town) -> bytes:
    return here.get("/executions?wait=60")


async def streams(here: Town) -> bytes:
    return here.get("/events")


async def idle(here: Town) -> bytes:
    return here.get(f"/pending/{here.request}")


async def unread(here: Town) -> bytes:
    return here.get("/docs/swagger-ui-bundle.js")


async def unread_with_a_key(here: Town) -> bytes:
    return here.get(f"/pending/{here.request}") + here.get("/docs/swagger-ui-bundle.js")


async def pipelined(here: Town) -> bytes:
    return here.get(f"/pending/{here.request}?wait=300") * 3


async def slow_bodies(here: Town) -> bytes:
    head = f"POST /pending HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {here.greedy}\r\n"
    return (head + "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{").encode()


async def slow_heads(here: Town) -> bytes:
    return here.get("/pending")[:-2]


async def silence(here: Town) -> bytes:
    return b""


async def wrong_keys(here: Town) -> bytes:
    return b"GET /pending HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\n\r\n"


WAYS: tuple[Way, ...] = (
    silence,
    slow_heads,
    slow_bodies,
    wrong_keys,
    idle,
    unread,
    unread_with_a_key,
    streams,
    executors,
    pipelined,
    waits,
)

"""The HTTP server of a process: its listener, its start and its stop."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, cast

import structlog
import uvicorn
from starlette.types import ASGIApp

from agent.database.background import start_task
from signoff.errors import SignoffError
from slackbot.web.http.connections import ConnectionLimits, Crowd, GuardedProtocol, HalfRead
from slackbot.web.http.metrics import ACCEPT_FAILURES

DEFAULT_LIMITS = ConnectionLimits()
BACKLOG = 2048
AT_ONCE = 32
"""Connections accepted before those that leave are closed: the reserve of open files covers them."""

TICK = 1.0
"""Seconds for which a response's `Date` is kept."""

PAUSE = 0.1
"""Seconds until connections are accepted again, where none can be."""

log = structlog.get_logger(__name__)


class HttpServer:
    """Listens on ``port`` (set by ``start``); trusts forwarding headers of ``trusted_proxies`` only.

    ``setting``: the name of the port's setting, for errors. ``most``: connections.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        host: str,
        port: int,
        drain_seconds: float,
        setting: str = "SIGNOFF_PORT",
        trusted_proxies: Collection[str] = (),
        limits: ConnectionLimits = DEFAULT_LIMITS,
        most: int = 10_000,
    ) -> None:
        crowd = Crowd(most)
        half_read = HalfRead(limits.half_read)
        protocol = partial(GuardedProtocol, limits=limits, half_read=half_read, crowd=crowd)
        self._server = _Server(
            crowd,
            uvicorn.Config(
                app,
                http=cast("type[asyncio.Protocol]", protocol),  # only ever called
                ws="none",
                log_config=None,
                access_log=False,
                lifespan="off",
                proxy_headers=bool(trusted_proxies),
                forwarded_allow_ips=list(trusted_proxies),
                timeout_keep_alive=limits.idle,
                timeout_graceful_shutdown=max(1, int(drain_seconds)),
            ),
        )
        self._host = host
        self._wanted = port
        self._setting = setting
        self._task: asyncio.Task[None] | None = None
        self.port: int | None = None

    async def start(self) -> None:
        """Raises SignoffError if the port is taken."""
        listening = listen(self._host, self._wanted, self._setting)
        self.port = listening.getsockname()[1]
        self._task = start_task(self._server.serve([listening]), "http")

    @property
    def alive(self) -> bool:
        """Whether it accepts connections."""
        return self._task is not None and not self._task.done() and self._server.started

    async def stop(self) -> None:
        self._server.leave()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)


class _Server(uvicorn.Server):
    """Leaves signal handling to the process, and accepts by a door of its own."""

    def __init__(self, crowd: Crowd, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._crowd = crowd
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        self.should_exit = True
        self._leaving.set()

    async def main_loop(self) -> None:
        """Wake up each second for the header `Date`, not ten times; leave at once."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK):
                    await self._leaving.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        new = partial(
            cast("Callable[..., asyncio.Protocol]", self.config.http_protocol_class),
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        doors = [_Door(each, new, self._crowd) for each in sockets or ()]
        self.servers = cast("list[asyncio.Server]", doors)
        self.started = True


class _Door:
    """Accepts connections while there is room for them, and makes room.

    Event loops accept 2,048 at once, and without open files they stop for a second, log a line each time, or close
    whatever comes, Slack's calls included.
    """

    def __init__(self, listening: socket.socket, new: Callable[[], asyncio.Protocol], crowd: Crowd) -> None:
        self._listening = listening
        self._new = new
        self._crowd = crowd
        self._loop = asyncio.get_running_loop()
        self._entering: set[asyncio.Task[Any]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._told = float("-inf")
        self._open()

    def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listening)

    async def wait_closed(self) -> None:
        """Nothing to wait for: the connections are waited for by themselves."""

    def _open(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            if len(self._crowd) + len(self._entering) >= self._crowd.most and not self._crowd.make_room():
                self._wait()
                return
            try:
                connection, _ = self._listening.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError as error:  # open files or memory are used up
                self._fail(error)
                return
            connection.setblocking(False)
            entering = start_task(self._enter(connection), "http connection")
            self._entering.add(entering)
            entering.add_done_callback(self._entering.discard)

    async def _enter(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._new, connection)
        except OSError:  # it has left already
            connection.close()

    def _fail(self, error: OSError) -> None:
        ACCEPT_FAILURES.inc()
        self._crowd.make_room()
        if (now := time.monotonic()) - self._told >= 60.0:
            self._told = now
            log.error(
                "connections cannot be accepted; some are closed",
                action="http.accept_failed",
                error=error.strerror or str(error),
                connections=len(self._crowd),
            )
        self._wait()

    def _wait(self) -> None:
        self._loop.remove_reader(self._listening)
        self._pause = self._loop.call_later(PAUSE, self._open)


def listen(host: str, port: int, setting: str) -> socket.socket:
    """Listen on exactly this port; 0: the system chooses. Raises SignoffError.

    Never on another port: a proxy would go on talking to whoever has this one.
    """
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            words = (
                f"port {port} on {host} is taken; stop the program that listens there, or choose another port"
            )
            raise SignoffError(f"{setting}: {words}") from None
        why = error.strerror or str(error)
        raise SignoffError(f"SIGNOFF_HOST, {setting}: cannot listen on {host}:{port}: {why}") from None
    listening.setblocking(False)
    return listening

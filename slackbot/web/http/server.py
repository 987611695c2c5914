from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from signoff.errors import SignoffError
from slackbot.web.http.connections import ConnectionLimits, GuardedProtocol, HalfRead

DEFAULT_LIMITS = ConnectionLimits()
BACKLOG = 2048


class HttpServer:
    """Listens on ``port`` (set by ``start``); trusts forwarding headers of ``trusted_proxies`` only.

    ``setting``: the name of the port's setting, for errors.
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
    ) -> None:
        protocol = partial(GuardedProtocol, limits=limits, half_read=HalfRead(limits.half_read))
        self._server = _Server(
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
            )
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
        self._task = asyncio.create_task(self._server.serve([listening]), name="http")

    async def stop(self) -> None:
        self._server.should_exit = True
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)


class _Server(uvicorn.Server):
    """Leaves signal handling to the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


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

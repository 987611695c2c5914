from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

import structlog
import uvicorn
from starlette.types import ASGIApp

from signoff.errors import SignoffError
from slackbot.web.http.connections import ConnectionLimits, GuardedProtocol, HalfRead

log = structlog.get_logger(__name__)

PORTS_TO_TRY = 50
DEFAULT_LIMITS = ConnectionLimits()
BACKLOG = 2048


class HttpServer:
    """Listens on ``port`` (set by ``start``); trusts forwarding headers of ``trusted_proxies`` only."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        host: str,
        port: int,
        drain_seconds: float,
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
        self._task: asyncio.Task[None] | None = None
        self.port: int | None = None

    async def start(self) -> None:
        """Raises SignoffError if no port is free."""
        listening = listen(self._host, self._wanted)
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


def listen(host: str, port: int) -> socket.socket:
    """Listen on the port, or the next free one; 0: the system chooses. Raises SignoffError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    why = ""
    for candidate in range(port, min(port + PORTS_TO_TRY, 65536)) if port else [0]:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
            listening.listen(BACKLOG)
        except OSError as error:
            listening.close()
            why = error.strerror or str(error)
            if error.errno != errno.EADDRINUSE:
                raise SignoffError(
                    f"SIGNOFF_HOST, SIGNOFF_PORT: cannot listen on {host}:{candidate}: {why}"
                ) from None
            continue
        if candidate != port and port:
            log.warning(
                "port is taken, using the next free one", action="http.port", wanted=port, port=candidate
            )
        listening.setblocking(False)
        return listening
    raise SignoffError(f"SIGNOFF_PORT: no free port from {port} on {host} ({why})")

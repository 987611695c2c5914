"""Socket Mode, with the app-level token alone.

The watchdog asks for a new address, and the client pauses after a refusal. The SDK does neither.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from aiohttp import ClientWebSocketResponse
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient

from agent.database.background import start_task
from agent.fault_points import point
from signoff.backoff import Backoff
from slackbot.slack.metrics import CLICK_TO_ACK, SOCKETS_REFUSED
from slackbot.slack_api.client import SlackClient, SlackError
from slackbot.slack_api.workspace import SlackRejected, token_of

log = logging.getLogger(__name__)

OPENED = 1  # connections of this process
TOO_MANY = "too_many_websockets"
TOO_MANY_WORDS = (
    f"Slack allows an app ten connections ({TOO_MANY}): end processes that are not needed, give every environment "
    "an app of its own, or use HTTP"
)
_ROUTINE = frozenset({"warning", "refresh_requested"})
"""Slack replaces a connection every few hours."""
_TICKET = re.compile(r"(ticket|app_id)=[^&'\"\s]+")


BACKOFF = Backoff(first=5.0, longest=60.0, spread=(1.0, 1.25))


@dataclass(frozen=True, slots=True)
class Pauses:
    """Seconds before the next connection. One that lived shorter than `short` counts as refused."""

    backoff: Backoff = BACKOFF
    short: float = 5.0

    def after(self, refusals: int) -> float:
        pause = self.backoff.after(refusals, random.random())  # noqa: S311 - processes should not meet again
        return min(self.backoff.longest, pause)


@dataclass(frozen=True, slots=True)
class SocketHealth:
    """`connections`: how many Slack counts for the app. `refusal`: why Slack closes them."""

    connected: bool
    connections: int | None
    refusal: str | None = None

    @property
    def crowded(self) -> bool:
        """Whether other processes take part of the traffic."""
        return self.connections is not None and self.connections > OPENED


PAUSES = Pauses()


class _PausingClient(SocketModeClient):
    """Waits before it replaces a connection that was refused; the SDK connects a hundred times a second."""

    def __init__(self, pauses: Pauses, refused: Callable[[str | None, float], None], **more: Any) -> None:
        self._pauses = pauses
        self._refused = refused
        self._refusals = 0
        self._since = 0.0
        self._leaving: tuple[ClientWebSocketResponse | None, str] | None = None
        self._replacing = asyncio.Lock()
        self._closing = asyncio.Event()
        super().__init__(**more)

    @property
    def is_refused(self) -> bool:
        """Whether the latest connections were refused, and the present one may be as well."""
        return self._refusals > 0 and monotonic() - self._since < self._pauses.short

    async def connect(self) -> None:
        await super().connect()  # type: ignore[no-untyped-call]
        self._since = monotonic()

    async def enqueue_message(self, message: str) -> None:
        if (reason := _reason(message)) is not None:
            self._leaving = (self.current_session, reason)
        await super().enqueue_message(message)

    async def connect_to_new_endpoint(self, force: bool = False) -> None:
        """Several tasks notice the end of a session; the first one replaces it."""
        session = self.current_session
        async with self._replacing:
            if self.current_session is not session or self.closed:
                return
            reason = self._leaving[1] if self._leaving and self._leaving[0] is session else None
            if (seconds := self._pause(reason)) > 0:
                if session is not None:
                    await session.close()  # Slack counts it until then
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._closing.wait()
                self.last_ping_pong_time = None
            if not self.closed:
                await super().connect_to_new_endpoint(force)

    async def close(self) -> None:
        self._closing.set()
        await super().close()  # type: ignore[no-untyped-call]

    def _pause(self, reason: str | None) -> float:
        if reason != TOO_MANY and monotonic() - self._since >= self._pauses.short:
            self._refusals = 0
            return 0.0
        self._refusals += 1
        if reason in _ROUTINE and self._refusals == 1:
            return 0.0
        seconds = self._pauses.after(self._refusals)
        self._refused(reason, seconds)
        return seconds


class _Handler(AsyncSocketModeHandler):
    def __init__(self, app: AsyncApp, client: _PausingClient) -> None:
        self.app, self.app_token, self.client = app, client.app_token, client
        client.socket_mode_request_listeners.append(self.handle)  # type: ignore[arg-type]


class SocketMode:
    """`ping_interval` (seconds) is also the pause between attempts."""

    def __init__(
        self,
        app: AsyncApp,
        app_token: str,
        api_url: str,
        *,
        ping_interval: float = 5.0,
        pauses: Pauses = PAUSES,
    ) -> None:
        sdk_log = logging.getLogger(f"{__name__}.sdk")
        sdk_log.addFilter(_one_line)
        self._client = SlackClient(app_token, api_url)
        # The SDK's connection to a socket handles the SDK's errors.
        self._web = AsyncWebClient(token=app_token, base_url=api_url, logger=sdk_log)
        self._app = app
        self._app_token = app_token
        self._log = sdk_log
        self._ping_interval = ping_interval
        self._pauses = pauses
        self._handler: _Handler | None = None
        self._socket: _PausingClient | None = None
        self._refusal: str | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._connections: int | None = None
        self._connected = False
        self._arrivals: dict[str, float] = {}  # by envelope, while handled

    @property
    def health(self) -> SocketHealth:
        """The watchdog's last result, at most one `ping_interval` old."""
        if self._refusal is not None and self._socket is not None and self._socket.is_refused:
            return SocketHealth(False, None, self._refusal)  # even if one is open just now
        return SocketHealth(self._connected, self._connections if self._connected else None)

    async def start(self) -> None:
        """Connect, and keep trying. Raises SlackRejected for a bad token."""
        self._socket = _PausingClient(
            self._pauses,
            self._refused,
            app_token=self._app_token,
            logger=self._log,
            web_client=self._web,
            ping_interval=self._ping_interval,
        )
        handler = _Handler(self._app, self._socket)
        handler.client.message_listeners.append(self._on_message)
        handler.client.socket_mode_request_listeners.insert(0, self._arrived)  # one after the other, in order
        handler.client.socket_mode_request_listeners.append(self._acknowledged)
        self._handler = handler
        try:
            with token_of("SLACK_APP_TOKEN"):
                answer = await self._client.apps_connections_open(app_token=self._app_token)
            handler.client.wss_uri = answer.get("url")
        except SlackRejected:
            await self.stop()
            raise
        except SlackError as error:
            log.warning(
                "Slack cannot be reached yet (%s); trying again",
                error,
                extra={"action": "socket_mode_unreachable"},
            )
        self._tasks = [
            start_task(handler.connect_async(), "socket"),  # type: ignore[no-untyped-call]
            start_task(self._watch(handler), "socket watch"),
        ]

    async def stop(self) -> None:
        """Running listeners continue, unacknowledged."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._connected = False
        if self._handler is not None:
            await self._handler.close_async()  # type: ignore[no-untyped-call]
            self._handler = None

    def _refused(self, reason: str | None, seconds: float) -> None:
        words = TOO_MANY_WORDS if reason == TOO_MANY else reason or "it did not last"
        self._refusal = words if reason else None
        SOCKETS_REFUSED.labels(TOO_MANY if reason == TOO_MANY else "short").inc()
        log.warning(
            "Slack has closed a new connection, and the next attempt is in %.0f s: %s",
            seconds,
            words,
            extra={"action": "socket_mode_refused", "reason": reason},
        )

    async def _watch(self, handler: AsyncSocketModeHandler) -> None:
        while True:
            self._connected = await handler.client.is_connected()
            if not self._connected:
                handler.client.wss_uri = None  # the next attempt asks for a new address
            await asyncio.sleep(self._ping_interval / 5)

    async def _on_message(
        self,
        client: AsyncBaseSocketModeClient,  # noqa: ARG002
        message: dict[str, Any],
        raw: str | None,  # noqa: ARG002
    ) -> None:
        if message.get("type") != "hello":
            return
        self._connected = True
        self._connections = message.get("num_connections")
        if self.health.crowded:
            log.warning(
                "Slack counts %s connections of this app, %s of them ours: the others receive part of the clicks",
                self._connections,
                OPENED,
                extra={"action": "socket_mode_crowded"},
            )

    async def _arrived(self, client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:  # noqa: ARG002
        self._arrivals[request.envelope_id] = monotonic()

    async def _acknowledged(self, client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:  # noqa: ARG002
        CLICK_TO_ACK.labels("socket").observe(
            monotonic() - self._arrivals.pop(request.envelope_id, monotonic())
        )
        point("after_ack")


def _one_line(record: logging.LogRecord) -> bool:
    """Drop the traceback of failed attempts, and the ticket in the address."""
    record.msg = _TICKET.sub(r"\1=…", record.getMessage())
    record.args = ()
    record.exc_info = None
    return True


def _reason(text: str) -> str | None:
    """Why Slack asks to leave a connection; ``None`` for every other message."""
    if '"disconnect"' not in text:
        return None
    with suppress(ValueError):
        message = json.loads(text)
        if isinstance(message, dict) and message.get("type") == "disconnect":
            return str(message.get("reason") or "unknown")
    return None

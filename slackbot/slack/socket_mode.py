"""Socket Mode, with the app-level token alone. The watchdog asks for a new address, which the SDK does not."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass
from time import monotonic
from typing import Any

from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient

from agent.fault_points import point
from slackbot.slack.metrics import CLICK_TO_ACK
from slackbot.slack_api.client import SlackClient, SlackError
from slackbot.slack_api.workspace import SlackRejected, token_of

log = logging.getLogger(__name__)

OPENED = 1  # connections of this process
_TICKET = re.compile(r"(ticket|app_id)=[^&'\"\s]+")


@dataclass(frozen=True, slots=True)
class SocketHealth:
    """`connections`: how many Slack counts for the app."""

    connected: bool
    connections: int | None

    @property
    def crowded(self) -> bool:
        """Whether other processes take part of the traffic."""
        return self.connections is not None and self.connections > OPENED


class SocketMode:
    """`ping_interval` (seconds) is also the pause between attempts."""

    def __init__(self, app: AsyncApp, app_token: str, api_url: str, *, ping_interval: float = 5.0) -> None:
        sdk_log = logging.getLogger(f"{__name__}.sdk")
        sdk_log.addFilter(_one_line)
        self._client = SlackClient(app_token, api_url)
        # The SDK's connection to a socket handles the SDK's errors.
        self._web = AsyncWebClient(token=app_token, base_url=api_url, logger=sdk_log)
        self._app = app
        self._app_token = app_token
        self._log = sdk_log
        self._ping_interval = ping_interval
        self._handler: AsyncSocketModeHandler | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._connections: int | None = None
        self._connected = False
        self._arrivals: dict[str, float] = {}  # by envelope, while handled

    @property
    def health(self) -> SocketHealth:
        """The watchdog's last result, at most one `ping_interval` old."""
        return SocketHealth(self._connected, self._connections if self._connected else None)

    async def start(self) -> None:
        """Connect, and keep trying. Raises SlackRejected for a bad token."""
        handler = AsyncSocketModeHandler(
            self._app, self._app_token, self._log, self._web, ping_interval=self._ping_interval
        )
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
            asyncio.create_task(handler.connect_async()),  # type: ignore[no-untyped-call]
            asyncio.create_task(self._watch(handler)),
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

    async def _watch(self, handler: AsyncSocketModeHandler) -> None:
        while True:
            self._connected = await handler.client.is_connected()
            if not self._connected:
                handler.client.wss_uri = None  # the next attempt asks for a new address
            await asyncio.sleep(self._ping_interval / 5)

    async def _on_message(
        self, client: AsyncBaseSocketModeClient, message: dict[str, Any], raw: str | None
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

    async def _arrived(self, client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        self._arrivals[request.envelope_id] = monotonic()

    async def _acknowledged(self, client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
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

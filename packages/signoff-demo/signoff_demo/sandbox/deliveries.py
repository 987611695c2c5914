"""Payloads go over an open socket, otherwise over signed HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from signoff_demo.sandbox.delivery_report import ACK_SECONDS, DeliveryReport
from signoff_demo.sandbox.refusal import Json
from signoff_demo.sandbox.signed_http import SignedHttp
from signoff_demo.sandbox.socket_mode import SocketModeServer
from signoff_demo.sandbox.workspace import SandboxWorkspace

RETRY_DELAYS = (0.0, 60.0, 300.0)
"""Seconds before each retry of an event (Slack, "Events API")."""


@dataclass(frozen=True)
class SentEvent:
    """An attempt to deliver an event to the app, from 0, with the app's answer."""

    event_id: str
    type: str
    attempt: int
    report: DeliveryReport


class Deliveries:
    """A sender of payloads to the app, over Socket Mode if it is connected; only events are repeated."""

    def __init__(
        self,
        workspace: SandboxWorkspace,
        sockets: SocketModeServer,
        http: SignedHttp,
        ack_seconds: float = ACK_SECONDS,
        retry_delays: Sequence[float] = RETRY_DELAYS,
    ) -> None:
        self.events: list[SentEvent] = []
        self._workspace = workspace
        self._sockets = sockets
        self._http = http
        self._ack_seconds = ack_seconds
        self._retry_delays = retry_delays
        self._tasks: set[asyncio.Task[None]] = set()

    async def interactive(self, payload: Json) -> DeliveryReport:
        """Send a click, submission, closing or shortcut once."""
        if self._sockets.connections or self._http.url is None:
            takes_response = payload["type"] in ("view_submission", "block_suggestion")
            return await self._sockets.send("interactive", payload, takes_response, self._ack_seconds)
        return await self._http.send(self._http.interactive(payload), self._ack_seconds)

    async def command(self, form: Json) -> DeliveryReport:
        """Send a slash command once."""
        if self._sockets.connections or self._http.url is None:
            return await self._sockets.send("slash_commands", form, True, self._ack_seconds)
        return await self._http.send(self._http.command(form), self._ack_seconds)

    def event(self, event: Json) -> None:
        """Start delivering; returns immediately."""
        task = asyncio.get_running_loop().create_task(self._deliver(self._wrapped(event)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _deliver(self, payload: Json) -> None:
        reason = ""
        for attempt, delay in enumerate((0.0, *self._retry_delays)):
            if attempt:
                await asyncio.sleep(delay)
            if not self._sockets.connections and self._http.url is None and not attempt:
                # No listener yet; retry later, as Slack does.
                reason = "timeout"
                continue
            report = await self._attempt(payload, attempt, reason)
            self.events.append(SentEvent(payload["event_id"], payload["event"]["type"], attempt, report))
            self._workspace.changes.wake()
            if report.acked:
                return
            reason = "http_error" if report.status else "timeout"

    async def _attempt(self, payload: Json, attempt: int, reason: str) -> DeliveryReport:
        if self._sockets.connections or self._http.url is None:
            return await self._sockets.send(
                "events_api", payload, False, self._ack_seconds, retry_attempt=attempt, retry_reason=reason
            )
        again = (
            {"X-Slack-Retry-Num": str(attempt), "X-Slack-Retry-Reason": _http_reason(reason)}
            if attempt
            else {}
        )
        return await self._http.send(self._http.event(payload, **again), self._ack_seconds)

    def _wrapped(self, event: Json) -> Json:
        team, bot = self._workspace.team, self._workspace.bot
        channel = event.get("channel")
        place = self._workspace.channels.get(channel) if isinstance(channel, str) else None
        return {
            "token": "sandbox-verification",
            "team_id": team.id,
            "context_team_id": team.id,
            "context_enterprise_id": None,
            "api_app_id": bot.app_id,
            "event": event,
            "type": "event_callback",
            "event_id": self._workspace.next_id("Ev"),
            "event_time": int(time.time()),
            "authorizations": [
                {
                    "enterprise_id": None,
                    "team_id": team.id,
                    "user_id": bot.user_id,
                    "is_bot": True,
                    "is_enterprise_install": False,
                }
            ],
            "is_ext_shared_channel": bool(place and place.is_ext_shared),
            "event_context": self._workspace.next_id("EC"),
        }


def _http_reason(reason: str) -> str:
    return {"timeout": "http_timeout"}.get(reason, reason)

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from agent.database.pools import Database
from agent.domain.webhook_urls import networks
from slackbot.outbound.mail import Mailer
from slackbot.outbound.sender import OutboundContext, OutboundSender
from slackbot.outbound.signed_post import WebhookPoster

LOOPBACK = networks("127.0.0.0/8")
PUBLIC_URL = "https://signoff.example"


def a_sender(
    db: Database, mailer: Mailer | None = None, public_url: str | None = PUBLIC_URL
) -> OutboundSender:
    """A sender of a service that has not reached Slack yet."""
    ctx = OutboundContext(db, lambda: None, public_url)
    return OutboundSender(ctx, WebhookPoster(LOOPBACK), mailer)


@dataclass
class ReceivedRequest:
    headers: dict[str, str]
    body: bytes
    peer: tuple[str, int] = ("", 0)

    @property
    def content(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.body)
        return content

    def is_signed_with(self, secret: str) -> bool:
        signed = f"{self.headers['Signoff-Timestamp']}.".encode() + self.body
        expected = "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        return hmac.compare_digest(expected, self.headers["Signoff-Signature"])


@dataclass
class Receiver:
    """`answers` are given one by one, the last one repeatedly; `hang` delays all answers."""

    url: str = ""
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=lambda: [(200, {})])
    received: list[ReceivedRequest] = field(default_factory=list)
    hang: asyncio.Event | None = None

    def events(self) -> list[str]:
        return [each.headers["Signoff-Event"] for each in self.received]

    async def handle(self, request: web.Request) -> web.Response:
        peer = request.transport.get_extra_info("peername") if request.transport else ("", 0)
        self.received.append(ReceivedRequest(dict(request.headers), await request.read(), tuple(peer[:2])))
        if self.hang is not None:
            await self.hang.wait()
        status, headers = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return web.Response(status=status, headers=headers)


@asynccontextmanager
async def a_receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_post("/hook", receiver.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield receiver
    finally:
        if receiver.hang is not None:
            receiver.hang.set()
        await runner.cleanup()

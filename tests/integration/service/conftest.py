"""The whole service on loopback: real Bolt, real PostgreSQL, the sandbox as Slack, a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeVar

import pytest
from sqlalchemy import text

from agent.database.pools import Database
from agent.domain import checkpoints
from agent.runtime.agents import Agent, Registry
from signoff_demo.sandbox import SlackSandbox
from signoff_demo.sandbox.model import ScriptedModel
from slackbot import settings
from slackbot.app import Service
from tests.databases import kept
from tests.integration.asking import column

T = TypeVar("T")

NO_TLS = False
"""For clients that only call loopback: loading certificates takes longer than most calls."""

DELETIONS = """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]

[[checkpoint]]
checkpoint_id = "deletions"
action_pattern = "delete_*"
description_template = "Delete {args.count} records from {args.table_name}"
"""
POLICY = DELETIONS + 'on_reject = "stop"\n'


async def until(look: Callable[[], Awaitable[T | None]], seconds: float = 30.0) -> T:
    """Poll at short intervals, for a bounded time."""
    deadline = monotonic() + seconds
    while True:
        if seen := await look():
            return seen
        if monotonic() > deadline:
            raise AssertionError(f"nothing to see after {seconds} s")
        await asyncio.sleep(0.02)


@dataclass
class House:
    slack: SlackSandbox
    model: ScriptedModel
    db: Database
    url: str
    stack: AsyncExitStack
    services: list[Service] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    async def open(self, agents: Sequence[Agent], policy: str = POLICY, **changes: str) -> Service:
        """Start another service on the same database."""
        configured = settings.read(self.environment | changes)
        service = Service(
            configured,
            Database(self.url) if self.services else kept(self.url),  # each service has its own connections
            checkpoints.load(policy, filename="checkpoints.toml"),
            Registry(agents),
        )
        await service.start()
        self.stack.push_async_callback(service.stop)
        self.services.append(service)
        if not configured.socket_mode:
            self.slack.request_url = f"http://127.0.0.1:{service.port}/slack/events"
        else:
            await self.slack.wait_for(lambda: len(self.slack.sockets.connections) > 0)
        return service

    async def ask(self, user: str, task: str, agent: str = "data") -> None:
        answer = await self.slack.person(user).command("/agent", f"run {agent} {task}", "C0AGENTS")
        assert answer.error is None, answer.error

    async def card(self, number: int = 0, channel: str = "C0REVIEW") -> dict[str, Any]:
        def find() -> dict[str, Any] | None:
            found = [m for m in self.slack.messages(channel) if _request_of(m)]
            return found[number] if len(found) > number else None

        card: dict[str, Any] = await self.slack.wait_for(find)
        await until(lambda: self.column("SELECT ts FROM card_place WHERE ts = :ts", ts=card["ts"]))
        return card

    def now(self, card: dict[str, Any]) -> dict[str, Any]:
        return next(m for m in self.slack.messages(card["channel"]) if m["ts"] == card["ts"])

    async def column(self, sql: str, **parameters: Any) -> list[Any]:
        return await column(self.db, sql, **parameters)

    async def make_overdue(self) -> None:
        async with self.db.transaction() as tx:
            await tx.execute(text(_TWO_DAYS_PASS))

    async def shows(self, sql: str, *expected: Any, seconds: float = 30.0) -> None:
        """Wait until the query's first column is exactly this."""

        async def look() -> bool:
            return await self.column(sql) == list(expected)

        await until(look, seconds)

    async def says(self, words: str, channel: str = "C0AGENTS", seconds: float = 30.0) -> str:
        """In a message or reply in the channel; return its text and blocks."""

        def find() -> str | None:
            for root in self.slack.messages(channel):
                for message in [root, *self.slack.thread(channel, root["ts"])]:
                    shown = f"{message['text']} {message.get('blocks')}"
                    if words in shown:
                        return shown
            return None

        found: str = await self.slack.wait_for(find, timeout=seconds)
        return found


_TWO_DAYS_PASS = """
UPDATE approval_request SET created_at = created_at - interval '2 days', expires_at = expires_at - interval '2 days'
WHERE status = 'waiting'
"""


def _request_of(message: dict[str, Any]) -> str | None:
    found: str | None = (message.get("metadata") or {}).get("event_payload", {}).get("request")
    return found


@asynccontextmanager
async def a_house(url: str, mode: str) -> AsyncIterator[House]:
    async with (
        AsyncExitStack() as outer,
        SlackSandbox(rate_limits=False, echo=False) as slack,
        ScriptedModel() as model,
        kept(url, "looking on") as db,
        AsyncExitStack() as services,
    ):
        environment = {
            "DATABASE_URL": url,
            "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_API_URL": slack.api_url,
            "OPENAI_API_KEY": "sk-scripted",
            "OPENAI_BASE_URL": model.base_url,
            "SIGNOFF_PORT": "0",
            "SIGNOFF_DRAIN_SECONDS": "1",
            "SIGNOFF_CHANNEL": "C0REVIEW",
        }
        if mode == "socket":
            environment["SLACK_APP_TOKEN"] = slack.app_token
        else:
            environment["SLACK_SIGNING_SECRET"] = slack.signing_secret
        yield House(slack, model, db, url, services, environment=environment)
        del outer


@pytest.fixture(params=["socket", "http"])
async def house(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[House]:
    async with a_house(database_url, request.param) as opened:
        yield opened


@pytest.fixture
async def http_house(database_url: str) -> AsyncIterator[House]:
    async with a_house(database_url, "http") as opened:
        yield opened

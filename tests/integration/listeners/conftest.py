"""The Slack side on loopback: sandbox, real Bolt in either mode, real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import psycopg
import pytest
import uvicorn
from starlette.applications import Starlette

from agent.database.pools import Database
from agent.domain.policy import Policy
from agent.runtime.agents import Agent, Registry
from agent.runtime.heartbeat import Heartbeat
from agent.runtime.immediate_claims import process_votes
from agent.runtime.model import Model
from agent.runtime.policy_in_force import PolicyInForce
from agent.runtime.services import Services, worker_name
from agent.runtime.tool import NotDone, tool
from agent.store import views
from agent.store.outbox import Destination
from signoff_demo.sandbox import SandboxWorkspace, SlackSandbox
from slackbot.cards import request_card, run_line
from slackbot.slack.app_home import AppHomes
from slackbot.slack.listeners import ListenerContext, new_app, register
from slackbot.slack.signed_http import SignedEndpoint
from slackbot.slack.socket_mode import SocketMode
from slackbot.slack_api.client import SlackClient
from slackbot.slack_api.directory import Directory
from slackbot.slack_api.manifest import EVENTS_PATH
from slackbot.slack_api.permalinks import Permalinks
from tests.integration.asking import TEAM, Asked, ask, rule

BOT = "U0BOT"
EVERYBODY = ["U0ADA", "U0GRACE", "U0LINUS", "U0MALLORY", "U0EVE", BOT]


LOOKED_UP: list[dict[str, Any]] = []


def price(order_id: int, amount: int = 0, note: str = "") -> dict[str, Any]:
    """What the order cost."""
    LOOKED_UP.append({"order_id": order_id, "amount": amount, "note": note})
    if order_id == 404:
        raise NotDone("there is no such order")
    return {"price": 1500, "amount": amount}


@tool(facts=price)
def process_refund(order_id: int, amount: int = 0, note: str = "") -> str:
    """Refund an order."""
    return f"refunded {order_id}"


QUARTER = {"type": "object", "properties": {"Quarter": {"type": "string"}}}
AGENTS = Registry(
    [Agent("refunds", "Refund orders.", [process_refund]), Agent("reports", "Write reports.", inputs=QUARTER)]
)
POLICY = Policy(
    rules=(
        rule(
            checkpoint_id="large",
            when="facts.amount > 1000",
            risk="critical",
            approvals_required=2,
            allow_edit=True,
        ),
        rule(allow_edit=True, editor_may_approve=True),
    )
)


def services(db: Database) -> Services:
    """No model is needed to judge an edit."""
    worker = worker_name()
    return Services(
        db=db,
        policies=PolicyInForce(db, POLICY),
        registry=AGENTS,
        model=Model("none", api_key="none", base_url="http://127.0.0.1:1/v1"),
        heartbeat=Heartbeat(db, worker),
        worker=worker,
        destination=lambda channel: Destination(TEAM, channel or "C0REVIEW"),
    )


def workspace() -> SandboxWorkspace:
    """A requester, two reviewers, a guest, an outsider; a review channel and a working channel."""
    return (
        SandboxWorkspace(TEAM)
        .add_member("U0ADA", "ada", "Ada Lovelace")
        .add_member("U0GRACE", "grace", "Grace Hopper")
        .add_member("U0LINUS", "linus", "Linus Pauling")
        .add_member("U0MALLORY", "mallory", "Mallory Guest", is_restricted=True)
        .add_member("U0EVE", "eve", "Eve Outside", team_id="T0ELSEWHERE")
        .add_channel("C0REVIEW", "refund-reviews", EVERYBODY)
        .add_channel("C0AGENTS", "agents", EVERYBODY)
        .add_usergroup("S0FINANCE", "finance", ["U0GRACE", "U0LINUS"])
    )


@dataclass
class House:
    slack: SlackSandbox
    db: Database
    ctx: ListenerContext
    client: SlackClient
    owner: psycopg.Connection[Any]

    async def card(self, asked: Asked, channel: str = "C0REVIEW", *, posted: bool = True) -> dict[str, Any]:
        """Post the card as delivery does; `posted`: its `ts` has been stored."""
        async with self.db.connection() as connection:
            view = await views.request_view(connection, asked.request_id)
        assert view is not None
        card = request_card(view)
        answer = await self.client.chat_postMessage(channel=channel, text=card.text, blocks=card.blocks)
        if posted:
            self.owner.execute("UPDATE card_place SET ts = %s WHERE nonce = %s", (answer["ts"], asked.nonce))
        return next(each for each in self.slack.messages(channel) if each["ts"] == answer["ts"])

    async def asked(self, terms: Any = None, **changes: Any) -> tuple[Asked, dict[str, Any]]:
        asked = await ask(self.db, terms, **changes)
        return asked, await self.card(asked)

    async def run_line(self, run_id: UUID, line: str) -> dict[str, Any]:
        """Post a line in the run's thread as delivery does."""
        root = await self.client.chat_postMessage(channel="C0AGENTS", text="A run")
        self.owner.execute("UPDATE agent_run SET thread_ts = %s WHERE id = %s", (root["ts"], run_id))
        ((body,),) = self.rows("SELECT body FROM delivery WHERE body ->> 'line' = %s", line)
        card = run_line(body)
        posted = await self.client.chat_postMessage(
            channel="C0AGENTS", thread_ts=root["ts"], text=card.text, blocks=card.blocks
        )
        return {"channel": "C0AGENTS", "ts": posted["ts"], "thread_ts": root["ts"], "blocks": card.blocks}

    async def status(self, request_id: UUID) -> str:
        async with self.db.connection() as connection:
            view = await views.request_view(connection, request_id)
        assert view is not None
        return view.status.value

    def rows(self, sql: str, *parameters: Any) -> list[Any]:
        return self.owner.execute(sql, parameters).fetchall()

    @contextmanager
    def stuck(self, request_id: UUID) -> Iterator[None]:
        with self.owner.transaction():
            self.owner.execute("SELECT 1 FROM approval_request WHERE id = %s FOR UPDATE", (request_id,))
            yield

    @contextmanager
    def without_database(self, *, but_for_votes: bool = False) -> Iterator[None]:
        away, served = Database("postgresql://nobody@127.0.0.1:1/nowhere"), self.ctx.services
        for name, value in {"db": away, "services": replace(served, db=away)}.items():
            object.__setattr__(self.ctx, name, value)
        self.ctx.votes.db = self.db if but_for_votes else away
        yield
        for name, value in {"db": self.db, "services": served}.items():
            object.__setattr__(self.ctx, name, value)
        self.ctx.votes.db = self.db

    async def ephemeral(self, user: str, words: str) -> str:
        """Wait for it."""

        def found() -> str | None:
            texts = [str(each.get("text")) for each in self.slack.ephemeral(user)]
            return next((text for text in texts if words in text), None)

        return str(await self.slack.wait_for(found))

    async def modal(self, user: str, words: str) -> dict[str, Any]:
        """Wait for the topmost modal."""

        def found() -> dict[str, Any] | None:
            stack = self.slack.views(user)
            return stack[-1] if stack and words in str(stack[-1]) else None

        shown: dict[str, Any] | None = await self.slack.wait_for(found)
        assert shown is not None
        return shown


@pytest.fixture(params=["http", "socket"])
async def house(
    request: pytest.FixtureRequest, database: Database, owner: psycopg.Connection[Any]
) -> AsyncIterator[House]:
    """Once per mode."""
    async with open_house(request.param, database, owner) as opened:
        yield opened


@pytest.fixture
async def http_house(database: Database, owner: psycopg.Connection[Any]) -> AsyncIterator[House]:
    """HTTP mode only."""
    async with open_house("http", database, owner) as opened:
        yield opened


SIGNING_SECRET = "sandbox-signing-secret"


@asynccontextmanager
async def open_house(mode: str, db: Database, owner: psycopg.Connection[Any]) -> AsyncIterator[House]:
    slack = SlackSandbox(
        workspace(), signing_secret=SIGNING_SECRET, rate_limits=False, event_retry_delays=(0.05, 0.2, 0.5)
    )
    async with slack:
        client = SlackClient(slack.bot_token, slack.api_url)
        me = await client.auth_test()
        app = new_app(client, team_id=me["team_id"], bot_user_id=me["user_id"], bot_id=me["bot_id"])
        directory, links = Directory(client, me["team_id"], me["user_id"]), Permalinks(client)
        parts = services(db)
        homes = AppHomes(db, directory, client, links, parts.policies, pace=0.2)
        ctx = ListenerContext(db, directory, client, parts, process_votes(parts), homes, links)
        register(app, ctx)
        house = House(slack, db, ctx, client, owner)
        if mode == "socket":
            socket = SocketMode(app, slack.app_token, slack.api_url, ping_interval=0.5)
            await socket.start()
            await slack.wait_for(lambda: slack.sockets.connections)
            yield house
            await ctx.background.finish()
            await homes.stop()
            await socket.stop()
        else:
            edge = SignedEndpoint(app, slack.signing_secret)
            async with served(Starlette(routes=[edge.route()])) as url:
                slack.request_url = url + EVENTS_PATH
                yield house
                await ctx.background.finish()
                await homes.stop()
        await ctx.services.user_code.stop()


@asynccontextmanager
async def served(app: Starlette) -> AsyncIterator[str]:
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(10):
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event to wait for
            await asyncio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task

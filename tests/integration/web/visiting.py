from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from agent.domain.run import ProposedCall, Turn
from agent.runtime.agents import Agent
from agent.runtime.tool import tool
from agent.store import views
from agent.store.outbox import Destination
from agent.usecases import policy as policies
from agent.usecases import requests, runs
from agent.usecases.runs import NewRun
from signoff.values import Person
from slackbot.app import Service
from tests.integration import alone, asking
from tests.integration.service.conftest import POLICY, House, http_house  # noqa: F401

TEAM = "T0SANDBOX"
PUBLIC = "http://localhost:8080"
ADA, GRACE, LINUS, MALLORY = (Person(TEAM, user) for user in ("U0ADA", "U0GRACE", "U0LINUS", "U0MALLORY"))
_LINK = re.compile(rf"{re.escape(PUBLIC)}(/sign-in/link/[^|>]+)")
_TOKEN = re.compile(r'name="token" value="([0-9a-f]{64})"')


def data_agent() -> Agent:
    """The agent of the guide: it deletes records after an approval."""

    @tool
    def delete_records(table_name: str, count: int = 0, note: str = "") -> str:
        """Delete records from a table."""
        return f"Deleted {count} records from {table_name}"

    return Agent("data", "You manage data.", [delete_records])


_MANY = """
WITH many AS MATERIALIZED (
    SELECT gen_random_uuid() AS id, n FROM generate_series(1, 1000) AS n
), proposed AS (
    INSERT INTO tool_call (id, principal, client_id, content_digest, agent, tool, executor, state, blocking, ask_no)
    SELECT id, 'key:many', n::text, '', 'many', 'many', 'program', 'asked', false, 1 FROM many
), asked AS (
    INSERT INTO approval_request
    SELECT (jsonb_populate_record(r, jsonb_build_object(
        'id', many.id, 'client_id', 'many-' || n, 'source', 'api', 'call_id', many.id, 'run_id', NULL))).*
    FROM approval_request AS r, many WHERE r.id = CAST(:id AS uuid)
)
INSERT INTO request_revision
SELECT (jsonb_populate_record(v, jsonb_build_object('request_id', many.id))).*
FROM request_revision AS v, many WHERE v.request_id = CAST(:id AS uuid)
"""


@dataclass
class Visitor:
    """Keeps cookies, and sends the origin of its forms."""

    browser: httpx.AsyncClient
    page: str = ""

    @property
    def words(self) -> str:
        """The page's text, roughly."""
        return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", self.page)))

    @property
    def badges(self) -> list[str]:
        return re.findall(r'<span class="badge [^"]*"><svg.*?</svg>([^<]+)</span>', self.page, re.DOTALL)

    async def open(self, path: str, **options: Any) -> httpx.Response:
        answer = await self.browser.get(path, **options)
        self.page = answer.text
        return answer

    async def send(
        self, path: str, form: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """The token is that of the open page."""
        found = _TOKEN.search(self.page)
        data = {"token": found[1] if found else ""} | dict(form or {})
        sent = {"Origin": str(self.browser.base_url).rstrip("/")} | dict(headers or {})
        answer = await self.browser.post(path, data=data, headers=sent)
        if answer.status_code != 303:
            self.page = answer.text
        return answer


@dataclass
class Porch:
    house: House
    service: Service
    visitors: list[httpx.AsyncClient] = field(default_factory=list)

    def stranger(self) -> Visitor:
        client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.service.port}", timeout=10)
        self.visitors.append(client)
        return Visitor(client)

    async def multiply(self, asked: str) -> None:
        """Add a thousand waiting copies of this request."""
        async with self.house.db.transaction() as tx:
            await tx.execute(text(_MANY), {"id": asked})

    async def link(self, user: str) -> str:
        answer = await self.house.slack.person(user).command("/approvals", "inbox", "C0AGENTS")
        assert answer.error is None, answer.error
        found = _LINK.search(str(answer.response))
        assert found, answer.response
        return found[1]

    async def visitor(self, user: str) -> Visitor:
        visitor = self.stranger()
        answer = await visitor.send(await self.link(user))
        assert answer.status_code == 303, answer.text
        return visitor

    async def asked(self, order: int = 0, terms: Any = None, **changes: Any) -> str:
        """Opened directly; returns its id."""
        started = await runs.start(
            self.house.db,
            NewRun("refunds", "1", "refund an order", "slack", ADA, "slack", TEAM, "C0AGENTS"),
        )
        leased = await alone.lease(self.house.db, started.run_id, "worker-1")
        assert leased is not None
        proposed = (ProposedCall("call_0", "process_refund", f'{{"order_id": {order}}}'),)
        await alone.record_turn(
            self.house.db, leased.lease, Turn("Ada asks for it.", proposed, 10, leased.heard)
        )
        async with self.house.db.connection() as connection:
            (call,) = await views.calls(connection, started.run_id)
        epoch = await policies.epoch_in_force(self.house.db)
        where = {"requester": ADA, "destination": Destination(TEAM, "C0REVIEW"), "policy_epoch": epoch}
        new = asking.question(
            started.run_id, call.id, terms or asking.rule(), order=order, **(where | changes)
        )
        return str((await requests.open(self.house.db, new)).request_id)


async def open_porch(
    house: House, agents: Sequence[Agent] = (), policy: str = POLICY, **changes: str
) -> Porch:
    options = {"SIGNOFF_PUBLIC_URL": PUBLIC, "SIGNOFF_ROLES": "web"} | changes
    return Porch(house, await house.open(agents or [data_agent()], policy, **options))


@pytest.fixture
async def porch(http_house: House) -> AsyncIterator[Porch]:  # noqa: F811
    """A service that serves only the page."""
    opened = await open_porch(http_house)
    yield opened
    for visitor in opened.visitors:
        await visitor.aclose()

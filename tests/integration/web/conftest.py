"""The whole service on loopback, and programs that call it: real HTTP, real PostgreSQL, the sandbox as Slack."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from agent.domain.api_keys import Scope
from agent.runtime.agents import Agent
from agent.usecases import api_keys
from signoff.values import Person
from slackbot.app import Service
from tests.integration.asking import rows, write
from tests.integration.service.conftest import DELETIONS, NO_TLS, House, a_house, until

__all__ = ["ADA", "GRACE", "LINUS", "TEAM", "House", "Program", "Street", "until"]

TEAM = "T0SANDBOX"
ADA, GRACE, LINUS = (Person(TEAM, user) for user in ("U0ADA", "U0GRACE", "U0LINUS"))
"""Grace and Linus review (`S0FINANCE`); Ada owns the keys."""

POLICY = (
    DELETIONS
    + """allow_edit = true
editor_may_approve = true

[[checkpoint]]
checkpoint_id = "transfers"
action_pattern = "transfer_*"
approvals_required = 2
risk = "high"
reason_required = ["reject"]

[[checkpoint]]
checkpoint_id = "posts"
action_pattern = "post_*"
approvers = ["channel"]

[[checkpoint]]
checkpoint_id = "nobody"
action_pattern = "nobody_*"
approvers = ["S0EMPTY"]

[[checkpoint]]
checkpoint_id = "reads"
action_pattern = "read_*"
when = "has(args.secret)"
"""
)


class Program(httpx.AsyncClient):
    async def ask(self, request_id: str = "r-1", **changes: Any) -> httpx.Response:
        """A field that is `None` is omitted."""
        body = {
            "request_id": request_id,
            "action_description": "Delete 5 records from customers",
            "agent_context": {"task": "Forget them", "step": 3},
            "timestamp": "2026-11-21T09:30:00Z",
            "action": "delete_records",
            "arguments": {"table_name": "customers", "count": 5},
        }
        given = {name: value for name, value in (body | changes).items() if value is not None}
        return await self.post("/pending", json=given)

    async def decide(self, request_id: str, decision: str = "approved", **more: Any) -> httpx.Response:
        return await self.post(f"/approve/{request_id}", json={"decision": decision, **more})

    async def decides(self, request_id: str, decision: str = "approved", **more: Any) -> None:
        answer = await self.decide(request_id, decision, **more)
        assert answer.status_code == 200, answer.text


@dataclass
class Street:
    house: House
    service: Service
    url: str
    stack: AsyncExitStack
    programs: dict[str, Program] = field(default_factory=dict)

    @property
    def db(self) -> Any:
        return self.house.db

    async def program(
        self,
        name: str = "crm",
        scopes: Collection[str] = ("request",),
        owner: Person | None = ADA,
        headers: Mapping[str, str] | None = None,
        **terms: Any,
    ) -> Program:
        """The same name returns the same program."""
        if name not in self.programs:
            granted = [Scope(each) for each in scopes]
            secret = await api_keys.create(self.db, name, granted, by="test", owner=owner, **terms)
            self.programs[name] = await self.client(secret, headers)
        return self.programs[name]

    async def client(self, secret: str | None, headers: Mapping[str, str] | None = None) -> Program:
        presented = {"Authorization": f"Bearer {secret}"} if secret else {}
        sent = {**presented, **(headers or {})}
        client = Program(base_url=self.url, headers=sent, timeout=30, verify=NO_TLS)
        return await self.stack.enter_async_context(client)

    async def reviewer(self, person: Person = GRACE, name: str = "grace") -> Program:
        return await self.program(name, ["decide"], person)

    async def events(self, subject: str) -> list[tuple[str, str, dict[str, Any]]]:
        """Actor, event and detail."""
        sql = "SELECT actor, event, detail FROM audit_event WHERE subject = :subject ORDER BY seq"
        return [(actor, event, detail) for actor, event, detail in await rows(self.db, sql, subject=subject)]

    async def sessions(self) -> list[str | None]:
        """Of all questions, oldest first."""
        sql = """SELECT c.session FROM approval_request AS r JOIN tool_call AS c ON c.id = r.call_id
                 ORDER BY r.created_at, r.id"""
        return [session for (session,) in await rows(self.db, sql)]

    async def write(self, sql: str, **parameters: Any) -> list[Any]:
        """Change the database without the service's knowledge."""
        return await write(self.db, sql, **parameters)


def shown(message: Mapping[str, Any]) -> str:
    return f"{message['text']} {json.dumps(message.get('blocks'), ensure_ascii=False)}"


@pytest.fixture
def agents() -> list[Agent]:
    """The agents that the service runs; a test's module may define some."""
    return []


@pytest.fixture
def policy() -> str:
    return POLICY


@pytest.fixture
def settings() -> dict[str, str]:
    """More settings of the service; a test's module may define some."""
    return {}


@pytest.fixture
async def site(
    database_url: str, agents: list[Agent], policy: str, settings: dict[str, str]
) -> AsyncIterator[Street]:
    """The service over HTTP with the sandbox as its Slack."""
    async with a_house(database_url, "http") as house:
        service = await house.open(agents, policy, **settings)
        yield Street(house, service, f"http://127.0.0.1:{service.port}", house.stack)

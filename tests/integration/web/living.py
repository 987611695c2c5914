from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from agent.domain.api_keys import Scope
from agent.runtime.agents import Agent
from agent.usecases import api_keys
from signoff.values import Person
from signoff_demo.examples.data_manager import data_manager
from signoff_demo.examples.durable_task import durable_task
from slackbot.app import Service
from tests.integration.service.conftest import DELETIONS, NO_TLS, House, a_house, until

TEAM = "T0SANDBOX"
ADA, GRACE, LINUS = (Person(TEAM, user) for user in ("U0ADA", "U0GRACE", "U0LINUS"))
AGENTS = (data_manager, durable_task)


@dataclass
class Living:
    house: House
    service: Service
    stack: AsyncExitStack
    clients: dict[str, httpx.AsyncClient] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.service.port}"

    async def key(self, name: str, *scopes: Scope, owner: Person | None = None) -> str:
        return await api_keys.create(self.house.db, name, scopes, by="test", owner=owner)

    async def program(self, name: str, *scopes: Scope, owner: Person | None = None) -> httpx.AsyncClient:
        secret = await self.key(name, *scopes, owner=owner)
        client = httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {secret}"},
            timeout=60,
            trust_env=False,
            verify=NO_TLS,
        )
        return await self.stack.enter_async_context(client)

    async def asker(self) -> httpx.AsyncClient:
        return await self.program("asker", Scope.REQUEST, owner=ADA)

    async def reviewer(self) -> httpx.AsyncClient:
        """She may read everything and decide."""
        return await self.program("reviewer", Scope.DECIDE, Scope.READ, owner=GRACE)

    async def becomes(
        self, client: httpx.AsyncClient, agent_id: str, status: str, waiting: int | None = None
    ) -> dict[str, Any]:
        """Wait until the agent has this status, and return it."""

        async def look() -> dict[str, Any] | None:
            found: dict[str, Any] = (await client.get(f"/agents/{agent_id}")).json()
            same = found.get("status") == status and waiting in (None, found.get("waiting"))
            return found if same else None

        seen = await until(look)
        assert seen is not None
        return seen


Open = Callable[..., Awaitable[Living]]


@asynccontextmanager
async def living(
    url: str, agents: Sequence[Agent] = AGENTS, policy: str = DELETIONS, **changes: str
) -> AsyncIterator[Living]:
    async with a_house(url, "http") as house, AsyncExitStack() as stack:
        service = await house.open(agents, policy, **changes)
        yield Living(house, service, stack)

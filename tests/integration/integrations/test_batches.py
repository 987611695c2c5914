"""What a framework asks at once arrives as one message, and each call takes its own verdict."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import Process
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.asking import column, rows
from tests.integration.integrations import batch_program
from tests.integration.integrations.batch_program import FRAMEWORKS, TABLES
from tests.integration.integrations.conftest import POLICY, Desk
from tests.integration.web.conftest import until


@pytest.fixture
def policy() -> str:
    """Deletions of medium risk, which may share a message."""
    return POLICY.replace('risk = "high"', 'risk = "medium"')


@dataclass
class Agent:
    """A process of its own; `start` again after a kill."""

    actors: Desk
    framework: str
    folder: Path
    database_url: str

    async def start(self) -> Process:
        model = self.actors.site.house.model.base_url
        where = {"AGENT_DATABASE_URL": self.database_url, "MODEL_URL": model, "AGNO_TELEMETRY": "false"}
        return await self.actors.run(
            Path(str(batch_program.__file__)), self.framework, str(self.folder), **where
        )

    async def asked(self) -> dict[str, str]:
        """The request of each table, in the order in which they were asked."""
        await self.actors.asked(len(TABLES))
        sql = """SELECT v.arguments ->> 'table_name', r.id::text FROM approval_request AS r
                 JOIN request_revision AS v ON v.request_id = r.id AND v.n = 1 ORDER BY r.created_at, r.id"""
        return {str(row[0]): str(row[1]) for row in await rows(self.actors.site.db, sql)}

    async def decide(self, asked: dict[str, str]) -> None:
        """Reject one, edit one, and approve the others."""
        for table, request in asked.items():
            if table == "logs":
                await self.actors.decide(request, "rejected", reason="Keep the logs")
            elif table == "orders":
                await self.actors.edit(request, {"table_name": "orders", "count": 3})
            else:
                await self.actors.decide(request)


DECIDED = [["carts", 50], ["orders", 3], ["users", 50]]


async def ended(process: Process) -> dict[str, Any]:
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, err.decode()
    result: dict[str, Any] = json.loads(out.decode().splitlines()[-1])
    return result


@pytest.fixture(params=FRAMEWORKS)
def agent(actors: Desk, tmp_path: Path, framework_url: str, request: pytest.FixtureRequest) -> Agent:
    return Agent(actors, str(request.param), tmp_path, framework_url.replace("+psycopg", ""))


async def test_calls_of_one_pause_are_decided_each_by_itself(actors: Desk, agent: Agent) -> None:
    """Four calls that wait at once are one batch, in the agent's order, and one wait: approved ones run, an edited one
    with its edit, a rejected one does not and says why.
    """
    process = await agent.start()
    asked = await agent.asked()
    assert list(asked) == sorted(TABLES)
    (gathered,) = await column(actors.site.db, "SELECT DISTINCT digest FROM card_place")
    assert gathered is not None

    async def waits() -> bool:
        return actors.site.service.web.places.held == 1

    await until(waits)
    await agent.decide(asked)
    result = await ended(process)
    assert result["done"] == DECIDED
    assert "Keep the logs" in result["said"]
    assert await actors.executions() == ["succeeded"] * 3


async def test_a_killed_agent_finds_the_verdict_of_each_call(actors: Desk, agent: Agent) -> None:
    """Killed (kill -9) while it waits for four and started again, it asks nobody again, and each call gets its own."""
    first = await agent.start()
    asked = await agent.asked()
    await actors.decide(asked["users"])
    first.kill()
    await first.wait()
    del asked["users"]
    await agent.decide(asked)
    result = await ended(await agent.start())
    assert result["done"] == DECIDED
    assert "Keep the logs" in result["said"]
    assert len(await actors.statuses()) == len(TABLES)
    assert await actors.executions() == ["succeeded"] * 3


@pytest.mark.parametrize("agent", ["langchain"], indirect=True)
async def test_a_batch_shares_one_message_in_slack(actors: Desk, agent: Agent) -> None:
    """In the channel, four calls of one pause are one message that names all of them."""
    slack = actors.site.house.slack

    async def digest() -> list[str]:
        shown = [str(each["blocks"]) for each in slack.messages("C0REVIEW")]
        return [each for each in shown if "4 requests of" in each]

    process = await agent.start()
    asked = await agent.asked()
    (message,) = await until(digest)
    assert all(table in message for table in TABLES)
    for each in asked.values():
        await actors.decide(each)
    assert len((await ended(process))["done"]) == len(TABLES)

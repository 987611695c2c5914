"""What a framework asks at once arrives as one message, and each call takes its own verdict."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from signoff.client import ApprovalClient
from signoff.integrations.langchain import resume_when_decided
from tests.integration.asking import column
from tests.integration.integrations import test_agno, test_openai_agents, test_pydantic_ai
from tests.integration.integrations.conftest import POLICY, Desk
from tests.integration.integrations.test_langchain import CONFIG, an_agent
from tests.integration.web.conftest import until

TABLES = ("carts", "logs", "orders", "users")
TASK = " ".join(f"delete_records table_name={table} count=50" for table in TABLES)


@pytest.fixture
def policy() -> str:
    """Deletions of medium risk, which may share a message."""
    return POLICY.replace('risk = "high"', 'risk = "medium"')


@asynccontextmanager
async def of_langchain(actors: Desk, _: Path) -> AsyncIterator[tuple[Any, list[Any]]]:
    done: list[tuple[str, int]] = []
    agent = an_agent(InMemorySaver(), done, *TABLES)
    agent.invoke({"messages": [("user", "tidy up")]}, CONFIG)
    with ApprovalClient(actors.url, actors.key) as client:
        running = asyncio.to_thread(resume_when_decided, client, agent, CONFIG, timeout=30)
        yield asyncio.create_task(running), done


@asynccontextmanager
async def of_pydantic_ai(actors: Desk, _: Path) -> AsyncIterator[tuple[Any, list[Any]]]:
    agent = test_pydantic_ai.Cleaner(actors)
    agent.calls = {table: {"table_name": table, "count": 50} for table in TABLES}
    paused = await agent.paused()

    async def run() -> str:
        return await agent.go_on(paused, await agent.approvals.answer(paused.requests, key="run"))

    yield asyncio.create_task(run()), agent.deleted
    await agent.client.close()


@asynccontextmanager
async def of_openai(actors: Desk, path: Path) -> AsyncIterator[tuple[Any, list[Any]]]:
    agent = test_openai_agents.Cleaner(actors, path)
    yield agent.begin(TASK), agent.deleted
    await agent.client.close()


@asynccontextmanager
async def of_agno(actors: Desk, path: Path) -> AsyncIterator[tuple[Any, list[Any]]]:
    agent = test_agno.Cleaner(actors, path / "runs.db")
    yield agent.begin(TASK), agent.deleted
    await agent.client.close()


@pytest.mark.parametrize("framework", [of_langchain, of_pydantic_ai, of_openai, of_agno])
async def test_calls_of_one_pause_share_a_message(actors: Desk, tmp_path: Path, framework: Any) -> None:
    """Four calls that wait at once are gathered as one batch; the rejected one alone does not run."""
    async with framework(actors, tmp_path) as (running, done):
        await actors.asked(4)
        names = await column(actors.site.db, "SELECT digest FROM card_place WHERE surface = 'channel'")
        assert len(names) == 4
        assert len(set(names)) == 1
        assert names[0] is not None
        asked = await column(
            actors.site.db,
            """SELECT v.arguments ->> 'table_name' || ' ' || r.id FROM approval_request AS r
               JOIN request_revision AS v ON v.request_id = r.id ORDER BY 1""",
        )
        for each in asked:
            table, request_id = each.split(" ")
            await actors.decide(request_id, "rejected" if table == "logs" else "approved")
        await running
        assert sorted(table for table, _ in done) == ["carts", "orders", "users"]


async def test_a_batch_shares_one_message_in_slack(actors: Desk, tmp_path: Path) -> None:
    """In the channel, four calls of one pause are one message that names all of them."""
    slack = actors.site.house.slack

    async def digest() -> list[str]:
        shown = [str(each["blocks"]) for each in slack.messages("C0REVIEW")]
        return [each for each in shown if "4 requests of" in each]

    async with of_langchain(actors, tmp_path) as (running, _):
        await actors.asked(4)
        (message,) = await until(digest)
        assert all(table in message for table in TABLES)
        for request_id in await column(actors.site.db, "SELECT id::text FROM approval_request"):
            await actors.decide(request_id)
        await running

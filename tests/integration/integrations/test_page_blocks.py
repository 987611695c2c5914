"""The Python of the pages for programs elsewhere runs: one service, people who approve, stand-ins for models."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import agents
import agno.agent
import agno.os
import agno.tools
import httpx
import pydantic_ai
import pytest
from agno.db.sqlite import SqliteDb
from agno.models.openai import OpenAIChat
from dbos import DBOS
from fastapi import FastAPI, Request
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolRuntime
from langgraph.store.memory import InMemoryStore
from openai import AsyncOpenAI
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from signoff import ApprovalClient
from signoff.integrations.langgraph import Background, call_key, resume_when_decided
from tests.doc_blocks import Block, blocks
from tests.integration.integrations import test_langchain, test_langgraph
from tests.integration.integrations.conftest import ADA, Desk
from tests.integration.integrations.test_dbos import ended, launched  # noqa: F401 - a fixture

PAGES = (
    "README.md",
    "docs/client.md",
    "docs/integrations.md",
    "docs/notices.md",
    "packages/signoff-client/README.md",
)
FIFTY = {"table_name": "users", "count": 50}


def python_of(page: str) -> list[Block]:
    """The page's blocks in Python; of the README those about programs elsewhere."""
    found = [each for each in blocks(page) if each.language == "python"]
    return [each for each in found if page != "README.md" or "ApprovalClient" in each.code]


@pytest.fixture
async def names(
    actors: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[dict[str, Any]]:
    """What the pages speak of and do not show; Grace approves whatever is asked."""
    monkeypatch.chdir(tmp_path)
    key = await api_keys.create(actors.site.db, "page", [Scope.REQUEST, Scope.FACTS], by="test", owner=ADA)

    async def approve() -> None:
        number = 0
        while True:
            number += 1
            await actors.decide(await actors.asked(number))

    approving = asyncio.create_task(approve())
    yield {
        "__name__": "page",
        "url": actors.url,
        "key": key,
        "secret": "s3cret",
        "delete_records": delete_records,
        "ApprovalClient": ApprovalClient,
        "Any": Any,
        "date": date,
        "datetime": datetime,
    }
    approving.cancel()


def delete_records(table_name: str, count: int) -> str:
    """Delete the oldest records of a table."""
    return f"Deleted {count} records from {table_name}"


async def test_programs_ask_as_the_pages_say(actors: Desk, names: dict[str, Any]) -> None:
    """The client's pages from top to bottom: every question of theirs is asked, approved, claimed and reported."""
    names["shop"] = SimpleNamespace(price_of=lambda order_id: 1249.5)
    address = {"https://signoff.example.com": actors.url}
    for page in ("README.md", "packages/signoff-client/README.md", "docs/client.md"):
        for block in python_of(page):
            await block.run(names, address)
    assert names["decision"].status == "approved"
    await asyncio.to_thread(names["refund"], 7, 1.0)
    await asyncio.to_thread(names["close"], 7, "done")
    assert {"nightly-17", "ticket-7"} <= set(await actors.site.sessions())
    asked = await actors.executions()
    assert set(asked) == {"succeeded"}
    assert len(asked) == 5


async def test_the_originals_of_known_examples_run(actors: Desk, names: dict[str, Any]) -> None:
    """Code beside our examples runs too; the guide's executor polls until Grace has approved."""
    quick = SimpleNamespace(sleep=lambda _: time.sleep(0.05))
    headers = {"Authorization": f"Bearer {names['key']}"}
    with httpx.Client(base_url=actors.url, headers=headers, trust_env=False) as http:
        agno_names = {"tool": agno.tools.tool, "Agent": agno.agent.Agent, "AgentOS": agno.os.AgentOS}
        names |= {
            "DBOS": DBOS,
            "app": FastAPI(),
            "http": http,
            "time": quick,
            "model": None,
            "db": None,
            **agno_names,
        }
        for block in python_of("docs/side-by-side.md"):
            if block.included is None:
                await block.run(names)
        await asyncio.to_thread(names["guarded"], "delete_records", FIFTY)
    assert await actors.statuses() == ["approved"]


async def test_a_webhook_is_checked_as_the_page_says(names: dict[str, Any]) -> None:
    """A body that was signed with the secret is taken, and no other one."""
    [block] = python_of("docs/notices.md")
    await block.run(names)
    now = str(int(datetime.now(UTC).timestamp()))
    signed = hmac.new(b"s3cret", f"{now}.{{}}".encode(), "sha256").hexdigest()
    headers = {"Signoff-Timestamp": now, "Signoff-Signature": f"v1={signed}"}
    assert [names["receive"](headers, body) for body in (b"{}", b"[]")] == [200, 401]


async def test_frameworks_ask_as_the_page_says(actors: Desk, names: dict[str, Any]) -> None:
    """Each framework's own agent runs through the block with a scripted model, and does what was approved."""
    for block in python_of("docs/integrations.md"):
        if "dbos" not in block.code:
            await block.run(names | _framework(block, actors), {"Delete 50 old users": TASK})
    assert await actors.executions() == ["succeeded"] * 5


async def test_a_workflow_of_dbos_asks_as_the_page_says(
    launched: Desk,  # noqa: F811 - the fixture
    names: dict[str, Any],
) -> None:
    """The page's workflow waits for people and does what was approved, once the sweep has found the decision."""
    [block] = [each for each in python_of("docs/integrations.md") if "dbos" in each.code]
    names |= {"DBOS": DBOS, "app": FastAPI(), "Request": Request}
    await block.run(names)
    handle: Any = await asyncio.to_thread(DBOS.start_workflow, names["clean_up"], "users", 50)
    while not await asyncio.to_thread(names["approvals"].sweep):
        await launched.asked()
    assert await ended(handle) == delete_records("users", 50)


TASK = "delete_records table_name=users count=50"


def _framework(block: Block, actors: Desk) -> dict[str, Any]:
    """What the block leaves open: a model, tools, a graph, a place for checkpoints."""
    if "pydantic_ai" in block.code:
        return {
            "Agent": pydantic_ai.Agent,
            "DeferredToolRequests": pydantic_ai.DeferredToolRequests,
            "model": FunctionModel(_says),
            "delete_records": pydantic_ai.Tool(delete_records, requires_approval=True),
            "task": "Tidy up",
        }
    if "openai_agents" in block.code:
        openai = AsyncOpenAI(base_url=actors.site.house.model.base_url, api_key="sk-scripted")
        agents.set_default_openai_client(openai, use_for_tracing=False)
        agents.set_default_openai_api("chat_completions")
        agents.set_tracing_disabled(True)
        return {"Agent": agents.Agent, "function_tool": agents.function_tool}
    if "agno" in block.code:
        url = actors.site.house.model.base_url
        return {
            "Agent": partial(agno.agent.Agent, telemetry=False),
            "model": OpenAIChat(id="signoff-scripted", base_url=url, api_key="sk-scripted"),
            "tool": agno.tools.tool,
            "PostgresDb": lambda path: SqliteDb(db_file=path),
            "db_url": "runs.db",
        }
    if "Background(" in block.code:
        return {
            "Background": Background,
            "PostgresStore": lambda _: InMemoryStore(),
            "pool": None,
            "call_key": call_key,
            "tool": tool,
            "ToolRuntime": ToolRuntime,
            "price_of": lambda order_id: 1249.5,
            "refund": print,
            "refuse": print,
        }
    config: Any = {"configurable": {"thread_id": "page"}}
    if "create_agent" in block.code:
        calls: Any = [{"name": "delete_records", "args": FIFTY, "id": "call-1"}]
        script = [AIMessage("", tool_calls=calls), AIMessage("That is all.")]
        return {
            "create_agent": create_agent,
            "model": test_langchain.Scripted(responses=script),
            "saver": InMemorySaver(),
            "task": {"messages": [("user", "Tidy up")]},
            "config": config,
        }
    graph = test_langgraph.a_graph(InMemorySaver())
    task = {"asked": [test_langgraph.human()]}
    return {"graph": graph, "task": task, "config": config, "resume_when_decided": resume_when_decided}


def _says(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Calls the tool, then says what came of it."""
    results = [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    part = (
        TextPart(f"Done: {results[0]}")
        if results
        else ToolCallPart("delete_records", FIFTY, tool_call_id="call-1")
    )
    return ModelResponse(parts=[part])

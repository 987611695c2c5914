"""The Python of the pages for programs elsewhere runs: one service, people who approve, stand-ins for models."""

from __future__ import annotations

import asyncio
import hmac
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import agents
import httpx
import pytest
from agno.db.sqlite import SqliteDb
from agno.models.openai import OpenAIChat
from dbos import DBOS
from langchain_core.messages import AIMessage
from langgraph.store.memory import InMemoryStore
from openai import AsyncOpenAI
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent.domain.api_keys import Scope
from agent.runtime.agents import Registry
from agent.usecases import api_keys
from tests.doc_blocks import Block, blocks
from tests.integration.integrations import test_langchain
from tests.integration.integrations.conftest import ADA, Desk
from tests.integration.integrations.test_dbos import ended, launched  # noqa: F401 - a fixture
from tests.integration.service.conftest import until

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
    for name, value in {
        "SIGNOFF_URL": actors.url,
        "SIGNOFF_KEY": key,
        "SIGNOFF_WEBHOOK_SECRET": "s3cret",
        "OPENAI_API_KEY": "sk-scripted",
        "AGNO_TELEMETRY": "false",
    }.items():
        monkeypatch.setenv(name, value)
    yield {"__name__": "page"}
    approving.cancel()


async def test_programs_ask_as_the_pages_say(actors: Desk, names: dict[str, Any]) -> None:
    """The client's pages from top to bottom: every question of theirs is asked once, approved, claimed and reported."""
    address = {"https://signoff.example.com": actors.url, "price_of(order_id: int) -> float: ...": PRICE}
    for page in ("README.md", "packages/signoff-client/README.md", "docs/client.md"):
        for block in python_of(page):
            await block.run(names, address)
    assert names["decision"].status == "approved"
    await asyncio.to_thread(names["refund"], 7, 1.0)
    await asyncio.to_thread(names["close"], 7, "done")
    assert {"nightly-17", "ticket-7"} <= set(await actors.site.sessions())
    asked = await actors.executions()
    assert set(asked) == {"succeeded"}
    assert len(asked) == 4


async def test_answers_are_asked_for_as_the_page_says(actors: Desk, names: dict[str, Any]) -> None:
    """The page's agent can be served, and its program gets the option that a reviewer chose."""
    agent, program = python_of("docs/answers.md")
    await agent.run(names)
    assert Registry([names["buyer"]]).find("buyer") is not None
    reviewer = await actors.site.reviewer()

    async def is_answered() -> bool:
        return (await reviewer.decide("deploy-17", "answered", answer="us")).status_code == 200

    address = {"https://signoff.example.com": actors.url, "signoff_…": os.environ["SIGNOFF_KEY"]}
    await asyncio.gather(program.run(names, address), until(is_answered))
    assert names["region"] == "us"


async def test_the_originals_of_known_examples_run(actors: Desk, names: dict[str, Any]) -> None:
    """Code beside our examples runs too; the guide's executor polls until Grace has approved."""
    headers = {"Authorization": f"Bearer {os.environ['SIGNOFF_KEY']}"}
    with httpx.Client(base_url=actors.url, headers=headers, trust_env=False) as http:
        for block in python_of("docs/side-by-side.md"):
            if block.included is None:
                await block.run(names, {"time.sleep(5)": "time.sleep(0.05)"})
        names["http"] = http
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
    shared, *rest = python_of("docs/integrations.md")
    await shared.run(names)
    for block in rest:
        if "dbos" not in block.code:
            given, replaced = _framework(block, actors)
            await block.run(names | given, replaced)
    assert await actors.executions() == ["succeeded"] * 5


async def test_a_workflow_of_dbos_asks_as_the_page_says(
    launched: Desk,  # noqa: F811 - the fixture
    names: dict[str, Any],
) -> None:
    """The page's workflow waits for people and does what was approved, once the sweep has found the decision."""
    shared, *rest = python_of("docs/integrations.md")
    [block] = [each for each in rest if "dbos" in each.code]
    await shared.run(names)
    await block.run(names, {DELETE: DELETES})
    handle: Any = await asyncio.to_thread(DBOS.start_workflow, names["clean_up"], "users", 50)
    while not await asyncio.to_thread(names["approvals"].sweep):
        await launched.asked()
    assert await ended(handle) == "Deleted 50 records from users"


TASK = "delete_records table_name=users count=50"
DELETE = "def delete_records(table_name: str, count: int) -> str: ..."
DELETES = DELETE.removesuffix("...") + 'return f"Deleted {count} records from {table_name}"'
PRICE = "price_of(order_id: int) -> float: return 1249.5"


def _framework(block: Block, actors: Desk) -> tuple[dict[str, Any], dict[str, str]]:
    """A scripted model and a place for checkpoints, and the texts of the block that they replace."""
    scripted = {'"openai:gpt-5"': "scripted", DELETE: DELETES}
    if "pydantic_ai" in block.code:
        return {"scripted": FunctionModel(_says)}, scripted
    if "openai_agents" in block.code:
        openai = AsyncOpenAI(base_url=actors.site.house.model.base_url, api_key="sk-scripted")
        agents.set_default_openai_client(openai, use_for_tracing=False)
        agents.set_default_openai_api("chat_completions")
        agents.set_tracing_disabled(True)
        return {}, {"Delete 50 old users": TASK, DELETE: DELETES}
    if "agno" in block.code:
        url = actors.site.house.model.base_url
        model = OpenAIChat(id="signoff-scripted", base_url=url, api_key="sk-scripted")
        return {"scripted": model, "database": SqliteDb(db_file="runs.db")}, {
            'OpenAIChat(id="gpt-5")': "scripted",
            'PostgresDb(db_url=os.environ["AGNO_DB_URL"])': "database",
            "Delete 50 old users": TASK,
            DELETE: DELETES,
        }
    if "Background(" in block.code:
        store = 'PostgresStore(ConnectionPool(os.environ["SHOP_DATABASE_URL"], kwargs=terms))\nstore.setup()'
        return {"in_memory": InMemoryStore()}, {store: "in_memory"}
    if "create_agent" in block.code:
        calls: Any = [{"name": "delete_records", "args": FIFTY, "id": "call-1"}]
        script = [AIMessage("", tool_calls=calls), AIMessage("That is all.")]
        return {"scripted": test_langchain.Scripted(responses=script)}, scripted
    return {}, {}


def _says(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Calls the tool, then says what came of it."""
    results = [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    part = (
        TextPart(f"Done: {results[0]}")
        if results
        else ToolCallPart("delete_records", FIFTY, tool_call_id="call-1")
    )
    return ModelResponse(parts=[part])

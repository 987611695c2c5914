"""Answers in the frameworks: a model's question and an MCP server's elicitation reach people, and come back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from agents import RunContextWrapper
from agents.tool_context import ToolContext
from mcp import Client, MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import TextContent
from pydantic import BaseModel, Field

from signoff.client import AsyncApprovalClient, GivenAnswer
from signoff.integrations.mcp_answers import elicitation_callback
from signoff.integrations.openai_agents import ask_people
from tests.integration.asking import column
from tests.integration.integrations.conftest import Desk


@pytest.fixture
async def client(actors: Desk) -> AsyncIterator[AsyncApprovalClient]:
    async with AsyncApprovalClient(actors.url, actors.key) as opened:
        yield opened


async def called(client: AsyncApprovalClient, **arguments: Any) -> str:
    """What the tool returns to the model."""
    tool, given = ask_people(client, timeout=60), json.dumps(arguments)
    context: ToolContext[None] = ToolContext(
        RunContextWrapper(None).context, tool_name=tool.name, tool_call_id="1", tool_arguments=given
    )
    return str(await tool.on_invoke_tool(context, given))


@pytest.mark.parametrize(
    ("asked", "answer", "read"),
    [
        ({"options": ["eu", "us"]}, "us", "People answered: us"),
        ({"options": ["eu", "us"]}, "the moon", "People answered: the moon"),
        ({}, {"answer": "north of the river"}, "People answered: north of the river"),
    ],
)
async def test_a_model_asks_people(
    actors: Desk, client: AsyncApprovalClient, asked: dict[str, Any], answer: Any, read: str
) -> None:
    """The ready tool of the OpenAI Agents SDK returns what people answered, from options or in their own words."""
    running = asyncio.create_task(called(client, question="Which region?", **asked))
    await actors.decide(await actors.asked(), "answered", answer=answer)
    assert await running == read


async def test_no_answer_is_said_to_the_model(actors: Desk, client: AsyncApprovalClient) -> None:
    """A rejection is no answer, and what cannot be asked is said with the reason, before anybody is asked."""
    running = asyncio.create_task(called(client, question="Which region?", options=["eu", "us"]))
    await actors.decide(await actors.asked(), "rejected", reason="Look it up")
    assert (await running).startswith("There is no answer: ")
    assert "an option stands twice" in await called(client, question="Which?", options=["eu", "eu"])
    assert await actors.statuses() == ["rejected"]


@pytest.mark.parametrize("asked", [{"options": ["eu", "us"]}, {}])
async def test_an_erased_answer_is_not_told(
    client: AsyncApprovalClient, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    """An erased answer is an error of the tool: a model does not read that people answered nothing."""

    async def erased(*_: Any, **__: Any) -> GivenAnswer:
        return GivenAnswer(None, "r-1", "r-1")

    monkeypatch.setattr(client, "ask_for", erased)
    read = await called(client, question="Which region?", **asked)
    assert read.startswith("An error occurred")


class Wanted(BaseModel):
    region: Literal["eu", "us"]
    count: int = Field(ge=1, le=10)


class Address(BaseModel):
    mail: str = Field(json_schema_extra={"format": "email"})


@asynccontextmanager
async def connected(client: AsyncApprovalClient) -> AsyncIterator[Client]:
    """An MCP client, whose server has a tool that asks."""
    served = MCPServer("warehouse")

    @served.tool()
    async def order(ctx: Context) -> str:
        found = await ctx.elicit("What do you need?", Wanted)
        return repr((found.action, getattr(found, "data", None)))

    @served.tool()
    async def mail(ctx: Context) -> str:
        return repr(await ctx.elicit("Where to?", Address))

    callback = elicitation_callback(client, timeout=60, session="chat-1")
    async with Client(served, mode="legacy", elicitation_callback=callback) as opened:
        yield opened


def told(result: Any) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


async def test_an_elicitation_is_answered_by_people(actors: Desk, client: AsyncApprovalClient) -> None:
    """A server's form is asked with its schema, and its tool goes on with the values."""
    async with connected(client) as session:
        running = asyncio.create_task(session.call_tool("order", {}))
        await actors.decide(await actors.asked(), "answered", answer={"region": "us", "count": 3})
        answer = await running
    assert told(answer) == repr(("accept", Wanted(region="us", count=3)))
    assert await column(actors.site.db, "SELECT session FROM tool_call") == ["chat-1"]


@pytest.mark.parametrize(("end", "action"), [("rejected", "decline"), ("expired", "cancel")])
async def test_an_elicitation_without_an_answer(
    actors: Desk, client: AsyncApprovalClient, end: str, action: str
) -> None:
    """A rejection declines, and a question that nobody answers in time is cancelled."""
    async with connected(client) as session:
        running = asyncio.create_task(session.call_tool("order", {}))
        request = await actors.asked()
        await (actors.expire() if end == "expired" else actors.decide(request, "rejected"))
        answer = await running
    assert told(answer) == repr((action, None))


async def test_an_elicitation_that_cannot_be_asked(actors: Desk, client: AsyncApprovalClient) -> None:
    """A field that no form has is an error with a sentence, and nobody is asked."""
    async with connected(client) as session:
        with pytest.raises(MCPError, match="cannot be asked for in a form"):
            await session.call_tool("mail", {})
    assert await actors.statuses() == []

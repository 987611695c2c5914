"""A model that lies in its arguments, through every framework: the program's own facts are correct, and people are
asked. They are asked again if the facts have changed by the time that the action would begin.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import OpenAIChatCompletionsModel, function_tool, set_tracing_disabled
from agno.agent import Agent as AgnoAgent
from agno.db.sqlite import SqliteDb
from agno.models.openai import OpenAIChat
from dbos import DBOS, DBOSConfig
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from mcp import Client
from mcp_types import TextContent
from openai import AsyncOpenAI
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolRequests

from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from signoff.client import Approval, ApprovalClient, AsyncApprovalClient, operations
from signoff.integrations import (
    agno,
    langchain,
    langgraph,
    langgraph_loop,
    mcp,
    openai_agents,
    pydantic_ai,
    tool_calls,
)
from signoff.integrations.agno import AgnoApprovals
from signoff.integrations.dbos import DBOSApprovals
from signoff.integrations.mcp import server
from signoff.integrations.openai_agents import FileRunStore, OpenAIApprovals
from signoff.integrations.pydantic_ai import PausedRun, PydanticAIApprovals
from tests.integration.integrations.conftest import ADA, Desk
from tests.integration.integrations.test_langchain import Scripted
from tests.integration.integrations.test_langgraph import a_graph, human

TOOL = "process_refund"
LIE = {"order_id": 7, "price": 1}
"""What the model says. The shop knows better."""


POLICY = """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]

[[checkpoint]]
checkpoint_id = "refunds"
action_pattern = "process_refund"
when = "facts.price > 1000.0"
description_template = "Refund {facts.price} for order {args.order_id}"
"""


@pytest.fixture
def policy(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", POLICY))


@dataclass
class Shop:
    """What is true, and what has been done."""

    price: float = 1500.0
    refunds: int = 0

    def facts(self, order_id: int, price: int) -> dict[str, float]:
        """Never what the model says."""
        return {"price": self.price}

    def refund(self, order_id: int, price: int) -> str:
        """Refund an order."""
        self.refunds += 1
        return "refunded"


@dataclass
class Setting:
    """The service, what every program needs, and the programs themselves, each of which is one lie."""

    actors: Desk
    key: str
    folder: Path
    stack: AsyncExitStack
    shop: Shop = field(default_factory=Shop)
    options: dict[str, Any] = field(default_factory=lambda: {"timeout": 30})

    @property
    def facts(self) -> Mapping[str, Callable[..., Any]]:
        return {TOOL: self.shop.facts}

    async def client(self) -> AsyncApprovalClient:
        return await self.stack.enter_async_context(AsyncApprovalClient(self.actors.url, self.key))

    def blocking(self) -> ApprovalClient:
        return self.stack.enter_context(ApprovalClient(self.actors.url, self.key))


async def through_a_permission_prompt(at: Setting) -> None:
    """MCP, as coding agents use it."""
    async with Client(server(await at.client(), facts=at.facts, **at.options)) as client:
        [block] = (await client.call_tool("permission_prompt", {"tool_name": TOOL, "input": LIE})).content
        assert isinstance(block, TextContent)
        assert json.loads(block.text) == {"behavior": "allow", "updatedInput": LIE}
        at.shop.refund(**LIE)


async def through_request_approval(at: Setting) -> None:
    """MCP, as models use it; one function of all tools."""

    def facts(tool: str, arguments: Mapping[str, Any]) -> Any:
        return {TOOL: at.shop.facts}[tool](**arguments)

    async with Client(server(await at.client(), facts=facts)) as client:
        result = await _word(client, "request_approval", action=TOOL, arguments=LIE, wait=0)
        while result["status"] == "waiting":
            result = await _word(client, "get_decision", request_id=result["request_id"], wait=1)
        assert (result["approved"], result["arguments"]) == (True, LIE), result
        at.shop.refund(**LIE)


async def through_an_interrupt(at: Setting) -> None:
    """LangGraph."""

    def refund(answers: list[Any]) -> None:
        assert [each["type"] for each in answers] == ["accept"], answers
        at.shop.refund(**LIE)

    graph = a_graph(InMemorySaver(), refund)
    config = {"configurable": {"thread_id": "lies"}}
    asked = {**human(TOOL), "action_request": {"action": TOOL, "args": LIE}}
    graph.invoke({"asked": [asked]}, config)
    await asyncio.to_thread(
        langgraph.resume_when_decided, at.blocking(), graph, config, facts=at.facts, **at.options
    )


async def through_the_background(at: Setting) -> None:
    """LangGraph, while the chat continues."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def run(call: langgraph.BackgroundCall) -> str:
        result = at.shop.refund(**call.arguments)
        loop.call_soon_threadsafe(done.set)
        return result

    background = langgraph.Background(at.blocking(), InMemoryStore(), name="lies", every=0.1)
    background.handles(TOOL, run, facts=at.shop.facts)
    background.start()
    try:
        assert (await asyncio.to_thread(background.begin, "lies-1", TOOL, LIE)).waiting
        await done.wait()
    finally:
        await asyncio.to_thread(background.stop)


async def through_a_middleware(at: Setting) -> None:
    """LangChain."""
    calls = [{"name": TOOL, "args": LIE, "id": "call-1"}]
    agent: Any = create_agent(
        Scripted(responses=[AIMessage("", tool_calls=calls), AIMessage("That is all.")]),
        [_named(at.shop.refund)],
        middleware=[langchain.HumanInTheLoopMiddleware(interrupt_on={TOOL: True})],
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "more-lies"}}
    await agent.ainvoke({"messages": [("user", "refund")]}, config)
    await langchain.aresume_when_decided(await at.client(), agent, config, facts=at.facts, **at.options)


async def through_openai_agents(at: Setting) -> None:
    """The OpenAI Agents SDK."""
    set_tracing_disabled(True)
    approvals = OpenAIApprovals(await at.client(), facts=at.facts, **at.options)
    openai = AsyncOpenAI(base_url=at.actors.site.house.model.base_url, api_key="sk-scripted")
    tool = function_tool(_named(at.shop.refund), needs_approval=True)
    agent = OpenAIAgent(
        name="refunds",
        model=OpenAIChatCompletionsModel("signoff-scripted", openai),
        tools=[approvals.guard(tool)],
    )
    await approvals.run(agent, f"{TOOL} order_id=7 price=1", key="lies-2", store=FileRunStore(at.folder))


async def through_agno(at: Setting) -> None:
    """Agno."""
    approvals = AgnoApprovals(await at.client(), facts=at.facts, **at.options)
    url = at.actors.site.house.model.base_url
    agent = AgnoAgent(
        id="refunds",
        model=OpenAIChat(id="signoff-scripted", base_url=url, api_key="sk-scripted"),
        tools=[approvals.guard(_named(at.shop.refund))],
        db=SqliteDb(db_file=str(at.folder / "agno.db")),
        telemetry=False,
    )
    await approvals.run(agent, f"{TOOL} order_id=7 price=1", key="lies-4")


async def through_pydantic_ai(at: Setting) -> None:
    """pydantic-ai."""

    def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
            return ModelResponse(parts=[TextPart("That is all.")])
        return ModelResponse(parts=[ToolCallPart(TOOL, LIE, tool_call_id="call-1")])

    approvals = PydanticAIApprovals(await at.client(), facts=at.facts, **at.options)
    agent = PydanticAgent(
        FunctionModel(model), output_type=[str, DeferredToolRequests], capabilities=[approvals]
    )
    agent.tool_plain(requires_approval=True)(_named(at.shop.refund))
    paused = PausedRun.of(await agent.run("Refund"))
    answers = await approvals.answer(paused.requests, key="lies-3")
    await agent.run(message_history=paused.messages, deferred_tool_results=answers)


dbos_approvals: DBOSApprovals
dbos_shop: Shop


@DBOS.workflow()
def refund_by_workflow() -> str:
    """What a user of DBOS would write."""
    decision = dbos_approvals.await_approval(TOOL, LIE, facts=dbos_shop.facts)
    return dbos_approvals.perform(decision, dbos_shop.refund, facts=dbos_shop.facts)


async def through_a_workflow(at: Setting) -> None:
    """DBOS, whose sweep finds what people decided."""
    global dbos_approvals, dbos_shop
    dbos_approvals, dbos_shop = DBOSApprovals(at.actors.url, at.key), at.shop
    handle: Any = await asyncio.to_thread(DBOS.start_workflow, refund_by_workflow)
    ending = asyncio.create_task(asyncio.to_thread(handle.get_result))
    while not ending.done():
        await asyncio.to_thread(dbos_approvals.sweep)
        await asyncio.wait([ending], timeout=0.1)
    assert ending.result() == "refunded"


WAYS: dict[Callable[[Setting], Awaitable[None]], str] = {
    through_a_permission_prompt: "mcp:[0-9a-f]{32}",
    through_request_approval: "mcp:[0-9a-f]{32}",
    through_an_interrupt: "lies",
    through_the_background: "None",  # outside of a graph
    through_a_middleware: "more-lies",
    through_openai_agents: "lies-2",
    through_agno: "lies-4",
    through_pydantic_ai: "lies-3",
    through_a_workflow: "[0-9a-f-]{36}",
}
"""Each with the session that it sends by itself."""


async def test_a_lie_is_asked_about_through_every_framework(
    actors: Desk, framework_url: str, tmp_path: Path
) -> None:
    """A lie is asked about; a fact that changed while people decided is asked about again; then it is done, once.

    Each framework names the conversation, the same in both questions.
    """
    key = await api_keys.create(actors.site.db, "billing", [Scope.REQUEST, Scope.FACTS], by="test", owner=ADA)
    async with AsyncExitStack() as stack, _launched(framework_url):
        asked = 0
        for way, session in WAYS.items():
            at = Setting(actors, key, tmp_path, stack)
            running: asyncio.Future[Any] = asyncio.ensure_future(way(at))
            for price in (1500, 2500):
                at.shop.price = float(price)
                asked += 1
                request = await _asked(actors, asked, running)
                pending = (await actors.grace.get(f"/pending/{request}")).json()
                assert (pending["facts"], pending["facts_source"]) == ({"price": price}, "program"), way
                assert (pending["action"]["arguments"], at.shop.refunds) == (LIE, 0), way
                at.shop.price = 2500.0
                await actors.decide(request)
            await asyncio.wait_for(running, 30)
            assert at.shop.refunds == 1, way
            first, second = (await actors.site.sessions())[-2:]
            assert re.fullmatch(session, str(first)), way
            assert first == second, way
    assert set(await actors.executions()) == {"succeeded"}
    assert len(await actors.executions()) == len(WAYS)


@pytest.mark.parametrize("policy", [POLICY + "timeout_seconds = 4\n"], indirect=True)
@pytest.mark.parametrize(
    "way",
    [
        through_a_permission_prompt,
        through_an_interrupt,
        through_a_middleware,
        through_openai_agents,
        through_agno,
        through_pydantic_ai,
    ],
)
async def test_policy_says_how_long_a_framework_waits(
    way: Callable[[Setting], Awaitable[None]], actors: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a timeout of its own a program waits until a request expires that was asked again, too."""
    for module in (operations, agno, mcp, openai_agents, pydantic_ai):
        monkeypatch.setattr(module, "TIMEOUT", 0.2)  # the program's, which policy overrules
    key = await api_keys.create(actors.site.db, "billing", [Scope.REQUEST, Scope.FACTS], by="test", owner=ADA)
    async with AsyncExitStack() as stack:
        at = Setting(actors, key, tmp_path, stack, options={})
        running: asyncio.Future[Any] = asyncio.ensure_future(way(at))
        request = await _asked(actors, 1, running)
        at.shop.price = 2500.0
        await actors.decide(request)
        await asyncio.wait([running], timeout=30)
        assert await actors.statuses() == ["approved", "expired"], running
        assert at.shop.refunds == 0


async def test_what_nobody_was_asked_about_is_judged_again_after_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While people decide about one call, the facts that let another one run may have changed."""
    monkeypatch.setattr(tool_calls, "FACTS_MAX_AGE", -1.0)
    outcomes: list[Any] = [Approval("not_required", TOOL, LIE, "r-1"), "not done any more"]

    async def ask() -> Any:
        return outcomes.pop(0)

    limit = operations.WaitLimit.of(None)
    async with AsyncApprovalClient("http://127.0.0.1:1", "no-key") as unused:
        found = await tool_calls.all_outcomes(
            unused, [ask], session=None, context=None, timeout=limit, facts={}
        )
    assert (found, outcomes) == (["not done any more"], [])


async def test_a_graph_asks_about_what_has_changed_while_it_waited(
    actors: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What facts let run unasked is judged again where other questions took long, and then people are asked."""
    monkeypatch.setattr(langgraph_loop, "FACTS_MAX_AGE", -1.0)
    key = await api_keys.create(actors.site.db, "billing", [Scope.REQUEST, Scope.FACTS], by="test", owner=ADA)
    prices = [10.0]

    def facts(tool: str, arguments: Mapping[str, Any]) -> dict[str, float]:
        return {"price": prices.pop() if prices else 1500.0}

    async with AsyncExitStack() as stack:
        at = Setting(actors, key, tmp_path, stack)
        monkeypatch.setattr(Setting, "facts", staticmethod(facts))
        running = asyncio.ensure_future(through_an_interrupt(at))
        request = await _asked(actors, 1, running)
        assert at.shop.refunds == 0
        await actors.decide(request)
        await asyncio.wait_for(running, 30)
        assert at.shop.refunds == 1


async def _asked(actors: Desk, number: int, running: asyncio.Future[Any]) -> str:
    """The request that waits; a program that has ended instead says why."""
    looking: asyncio.Future[Any] = asyncio.ensure_future(actors.asked(number))
    await asyncio.wait({looking, running}, return_when=asyncio.FIRST_COMPLETED)
    if not looking.done():
        looking.cancel()
        running.result()
        raise AssertionError("it has ended, and nobody was asked")
    return str(looking.result())


async def _word(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    return (await client.call_tool(tool, arguments)).structured_content or {}


def _named(function: Callable[..., str]) -> Callable[..., str]:
    """The function under the tool's name, for frameworks that read its signature."""

    def process_refund(order_id: int, price: int) -> str:
        """Refund an order."""
        return function(order_id, price)

    return process_refund


@asynccontextmanager
async def _launched(url: str) -> AsyncIterator[None]:
    """DBOS in this process, on a database of its own."""
    config: DBOSConfig = {"name": "lies", "system_database_url": url, "log_level": "WARNING"}
    DBOS(config=config)
    await asyncio.to_thread(DBOS.launch)
    try:
        yield
    finally:
        await asyncio.to_thread(DBOS.destroy)
        # DBOS gave its threads to the loop, which goes on with the next test, and has just ended them.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())

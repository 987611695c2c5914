"""A model repeats the ids of its calls, gives none, or uses the tool's name: each call is asked about, or refused."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import AgentHooks, Runner, RunState, Usage, function_tool
from agents import ModelResponse as OpenAIResponse
from agents.exceptions import ModelBehaviorError
from agents.models.interface import Model as OpenAIModel
from agno.agent import Agent as AgnoAgent
from agno.db.sqlite import SqliteDb
from agno.models.openai import OpenAIChat
from agno.tools import tool as agno_tool
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolRuntime
from mcp import Client
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import DeferredToolRequests
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from signoff.client import ApprovalClient, AsyncApprovalClient
from signoff.errors import AlreadyClaimed, Conflict, SignoffError
from signoff.integrations.agno import AgnoApprovals
from signoff.integrations.langchain import (
    HumanInTheLoopMiddleware,
    UnsupportedInterrupt,
    aresume_when_decided,
    resume_when_decided,
)
from signoff.integrations.langgraph import call_key
from signoff.integrations.mcp import server
from signoff.integrations.openai_agents import FileRunStore, OpenAIApprovals
from signoff.integrations.pydantic_ai import PausedRun, PydanticAIApprovals
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from tests.integration.integrations.conftest import Desk, until
from tests.integration.integrations.test_langchain import CONFIG
from tests.integration.integrations.test_langchain import Scripted as Chat

Call = tuple[str | None, int]
"""Its id, and how many records it deletes."""

Turns = list[list[Call]]
OTHER: Turns = [[("delete_records", 5)], [("delete_records", 7)]]
SAME: Turns = [[("delete_records", 5)], [("delete_records", 5)]]
EMPTY: Turns = [[("", 5)], [("", 5)]]
TWINS: Turns = [[("call_0", 5), ("call_0", 5)]]
BOTH: Turns = [[("call_0", 5), ("call_0", 7)]]
EACH = {"other": OTHER, "same": SAME, "empty": EMPTY, "twins": TWINS, "both": BOTH}
repeated = pytest.mark.parametrize("turns", EACH.values(), ids=list(EACH))


def arguments(count: int) -> dict[str, Any]:
    return {"table_name": "users", "count": count}


class Tool:
    """`done` is what it deleted, `told` what the model was told."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.told: list[str] = []
        self.breaks = 0
        """The number of the call that fails."""

    def delete_records(self, table_name: str, count: int) -> str:
        """Delete records."""
        self.done.append(count)
        if len(self.done) == self.breaks:
            raise RuntimeError("the disk is full")
        return f"deletion {len(self.done)}"


@asynccontextmanager
async def approving(desk: Desk) -> AsyncIterator[None]:
    """Grace approves whatever is asked."""

    async def approve() -> None:
        number = 1
        while True:
            await desk.decide(await desk.asked(number))
            number += 1

    task = asyncio.create_task(approve())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


Drive = Callable[[Desk, Path, Tool, Turns], Coroutine[Any, Any, None]]


async def by_pydantic_ai(
    desk: Desk, path: Path, tool: Tool, turns: Turns, shorten: bool = False, streamed: bool = False
) -> None:
    left = list(turns)

    def said(messages: Any) -> list[Call]:
        parts = [part for each in messages[-1:] for part in each.parts]
        tool.told += [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]
        return left.pop(0) if left else []

    def model(messages: Any, info: Any) -> ModelResponse:
        calls: list[Any] = [
            ToolCallPart("delete_records", arguments(count), call_id or "")
            for call_id, count in said(messages)
        ]
        return ModelResponse(calls or [TextPart("done")])

    async def stream(messages: Any, info: Any) -> AsyncIterator[Any]:
        calls = said(messages)
        for number, (call_id, count) in enumerate(calls):
            yield {
                number: DeltaToolCall("delete_records", json.dumps(arguments(count)), tool_call_id=call_id)
            }
        if not calls:
            yield "done"

    def last_three(messages: Any) -> Any:
        return messages[-3:]

    short: list[Any] = [ProcessHistory(last_three)] if shorten else []

    async def run(approvals: PydanticAIApprovals, **more: Any) -> tuple[Any, list[Any]]:
        """One life of a process."""
        agent = PydanticAgent(
            FunctionModel(model, stream_function=stream),
            output_type=[str, DeferredToolRequests],
            capabilities=[approvals, *short],
        )
        agent.tool_plain(requires_approval=True)(tool.delete_records)
        if not streamed:
            result = await agent.run(**more)
            return result.output, result.all_messages()
        async with agent.run_stream(**more) as running:
            output: Any = await running.get_output()
        return output, running.all_messages()

    async with AsyncApprovalClient(desk.url, desk.key) as client:
        output, messages = await run(PydanticAIApprovals(client), user_prompt="go")
        while isinstance(output, DeferredToolRequests):
            kept = PausedRun(messages, output).to_json()
            with suppress(TimeoutError):
                await PydanticAIApprovals(client, timeout=0).answer(
                    PausedRun.of_json(kept).requests, key="run-1"
                )
            approvals, paused = PydanticAIApprovals(client, timeout=30), PausedRun.of_json(kept)
            answers = await approvals.answer(paused.requests, key="run-1")
            output, messages = await run(
                approvals, message_history=paused.messages, deferred_tool_results=answers
            )


async def by_pydantic_ai_streamed(desk: Desk, path: Path, tool: Tool, turns: Turns) -> None:
    await by_pydantic_ai(desk, path, tool, turns, streamed=True)


class Scripted(OpenAIModel):
    def __init__(self, tool: Tool, turns: Turns, calls: str = "delete_records") -> None:
        self.tool, self.left, self.calls = tool, list(turns), calls

    async def get_response(self, *rest: Any, **more: Any) -> OpenAIResponse:
        heard = more["input"]
        self.offered = [each.name for each in more["tools"]]
        if isinstance(heard, list):
            self.tool.told = [each["output"] for each in heard if each.get("type") == "function_call_output"]
        text = ResponseOutputText(type="output_text", text="done", annotations=[])
        output: list[Any] = [
            ResponseFunctionToolCall(
                type="function_call",
                name=self.calls,
                call_id=call_id or "",
                arguments=json.dumps(arguments(count) if self.calls == "delete_records" else {"input": ""}),
            )
            for call_id, count in (self.left.pop(0) if self.left else [])
        ] or [
            ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )
        ]
        return OpenAIResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *rest: Any, **more: Any) -> Any:
        raise NotImplementedError


async def by_openai_agents(desk: Desk, path: Path, tool: Tool, turns: Turns) -> None:
    async with AsyncApprovalClient(desk.url, desk.key) as client:
        model = Scripted(tool, turns)

        async def life(timeout: int) -> None:
            approvals = OpenAIApprovals(client, timeout=timeout)
            guarded = approvals.guard(function_tool(tool.delete_records))
            agent = OpenAIAgent(name="a", model=model, tools=[guarded])
            await approvals.run(agent, "go", key="run-1", store=FileRunStore(path))

        try:
            await life(0)
        except TimeoutError:
            await life(30)


async def by_hand(desk: Desk, agent_of: Callable[[OpenAIApprovals], OpenAIAgent]) -> None:
    """A program's own loop over what the SDK interrupts, with a process for each turn."""
    async with AsyncApprovalClient(desk.url, desk.key) as client:
        kept: str | None = None
        while True:
            approvals = OpenAIApprovals(client, timeout=30)
            agent, state = agent_of(approvals), None
            if kept is not None:
                state = await RunState.from_string(agent, kept)
                await approvals.decide(state, key="run-1")
            result = await Runner.run(agent, "go" if state is None else state)
            if not result.interruptions:
                return
            early = result.to_state()
            kept = early.to_string()
            with suppress(TimeoutError):
                await OpenAIApprovals(client, timeout=0).decide(early, key="run-1")


async def by_openai_by_hand(desk: Desk, path: Path, tool: Tool, turns: Turns) -> None:
    model = Scripted(tool, turns)

    def agent_of(approvals: OpenAIApprovals) -> OpenAIAgent:
        return OpenAIAgent(name="a", model=model, tools=[approvals.guard(function_tool(tool.delete_records))])

    await by_hand(desk, agent_of)


async def by_agno(desk: Desk, path: Path, tool: Tool, turns: Turns, stores: bool = True) -> None:
    model = desk.site.house.model
    for calls in turns:
        made = (ScriptedCall("delete_records", arguments(count), call_id) for call_id, count in calls)
        model.script(ScriptedTurn(None, tuple(made)))
    model.script("done")
    async with AsyncApprovalClient(desk.url, desk.key) as client:

        async def life(timeout: int) -> Any:
            approvals = AgnoApprovals(client, timeout=timeout)
            agent = AgnoAgent(
                id="ops",
                model=OpenAIChat(id="signoff-scripted", base_url=model.base_url, api_key="sk-scripted"),
                tools=[approvals.guard(agno_tool(requires_confirmation=True)(tool.delete_records))],
                db=SqliteDb(db_file=str(path / "runs.db")),
                store_tool_messages=stores,
                telemetry=False,
            )
            return await approvals.run(agent, "go", key="run-1")

        with suppress(TimeoutError):
            await life(0)
        run = await life(30)
        tool.told = [str(each.content) for each in run.messages or () if each.role == "tool"]


def chat(tool: Tool, turns: Turns, mode: Any = "batched", within: bool = False) -> Any:
    """An agent of LangChain whose model makes these calls, alone or as a node of a graph."""
    said = [
        AIMessage(
            "", tool_calls=[{"name": "delete_records", "args": arguments(n), "id": name} for name, n in calls]
        )
        for calls in turns
    ]
    gate = HumanInTheLoopMiddleware(
        {"delete_records": {"allowed_decisions": ["approve", "edit", "reject"]}}, interrupt_mode=mode
    )
    model = Chat(responses=[*said, AIMessage("done")])
    saver = None if within else InMemorySaver()
    agent = create_agent(model, [tool.delete_records], middleware=[gate], checkpointer=saver)
    if not within:
        return agent
    outer = StateGraph(MessagesState).add_node("agent", agent).add_edge(START, "agent")
    return outer.compile(checkpointer=InMemorySaver())


async def by_langchain(
    desk: Desk, path: Path, tool: Tool, turns: Turns, mode: Any = "batched", within: bool = False
) -> None:
    agent = chat(tool, turns, mode, within)

    def run() -> Any:
        agent.invoke({"messages": [("user", "go")]}, CONFIG)
        with ApprovalClient(desk.url, desk.key) as client:
            with suppress(TimeoutError):
                resume_when_decided(client, agent, CONFIG, timeout=0)
            return resume_when_decided(client, agent, CONFIG, timeout=30)

    values = await asyncio.to_thread(run)
    tool.told = [each.text for each in values["messages"] if isinstance(each, ToolMessage)]


async def by_langchain_per_call(desk: Desk, path: Path, tool: Tool, turns: Turns) -> None:
    await by_langchain(desk, path, tool, turns, "per_call")


async def by_langchain_within(desk: Desk, path: Path, tool: Tool, turns: Turns) -> None:
    await by_langchain(desk, path, tool, turns, within=True)


async def by_langchain_within_per_call(desk: Desk, path: Path, tool: Tool, turns: Turns) -> None:
    await by_langchain(desk, path, tool, turns, "per_call", within=True)


FRAMEWORKS: list[Drive] = [
    by_pydantic_ai,
    by_pydantic_ai_streamed,
    by_openai_agents,
    by_openai_by_hand,
    by_agno,
    by_langchain,
    by_langchain_per_call,
    by_langchain_within,
    by_langchain_within_per_call,
]


BY_OPENAI: list[tuple[Turns, tuple[list[int], str]]] = [
    (OTHER, ([5], "(?i) id")),
    (SAME, ([5], "(?i) id")),
    (EMPTY, ([], "(?i) id")),
    (TWINS, ([], "(?i) id")),
    (BOTH, ([], "(?i) id")),
]
"""What ran, and the error that ended the run."""


@repeated
@pytest.mark.parametrize("drive", FRAMEWORKS)
async def test_two_calls_under_one_id_are_two_questions_or_one_refusal(
    actors: Desk, tmp_path: Path, drive: Drive, turns: Turns
) -> None:
    """Each call that runs was asked about, with its own arguments; a call that nobody was asked about is refused. A
    process that takes a waiting call up finds its question.
    """
    tool = Tool()
    refused = ""
    async with approving(actors):
        try:
            await drive(actors, tmp_path, tool, turns)
        except (SignoffError, ModelBehaviorError) as error:
            refused = str(error)
    calls = [count for each in turns for _, count in each]
    assert len(await actors.statuses()) == len(await actors.executions()) == len(tool.done)
    if drive in (by_openai_agents, by_openai_by_hand):  # the SDK itself cannot tell them apart
        done, failure = next(outcome for case, outcome in BY_OPENAI if case is turns)
        assert tool.done == done
        assert re.search(failure, refused), refused
    elif tool.done:
        assert (sorted(tool.done), refused) == (sorted(calls), "")
        assert [f"deletion {number}" in " ".join(tool.told) for number in (1, 2)] == [True, True]
    else:
        assert turns in (TWINS, BOTH)
        assert drive not in (by_pydantic_ai, by_pydantic_ai_streamed)
        assert "another call has the same id" in tool.told[0]


@pytest.mark.parametrize("streamed", [False, True], ids=["run", "run_stream"])
async def test_a_shortened_history_forgets_no_question(actors: Desk, tmp_path: Path, streamed: bool) -> None:
    """pydantic-ai: the same call under the same id is a new one, also when the history no longer has the first."""
    tool = Tool()
    async with approving(actors):
        turns: Turns = [[("first", 5)], [("second", 5)], [("third", 5)], [("first", 5)]]
        await by_pydantic_ai(actors, tmp_path, tool, turns, shorten=True, streamed=streamed)
    assert tool.done == [5, 5, 5, 5]
    assert len(await actors.statuses()) == 4


async def test_calls_that_come_without_their_turn_are_refused(actors: Desk) -> None:
    """pydantic-ai: `run_stream` says neither turn nor own id of a call; without its history nobody is asked."""
    calls = [ToolCallPart("delete_records", arguments(5), "call_0")]
    async with AsyncApprovalClient(actors.url, actors.key) as client:
        with pytest.raises(ValueError, match=r"PausedRun\(stream.all_messages"):
            await PydanticAIApprovals(client).answer(DeferredToolRequests(approvals=calls), key="run-1")
    assert await actors.statuses() == []


async def test_a_run_without_its_tool_messages_forgets_no_question(actors: Desk, tmp_path: Path) -> None:
    """Agno: the same call under the same id is a new one, also where Agno is told not to store earlier turns."""
    tool = Tool()
    async with approving(actors):
        await by_agno(actors, tmp_path, tool, [*SAME, *SAME[:1]], stores=False)
    assert tool.done == [5, 5, 5]
    assert len(await actors.statuses()) == 3


async def test_each_run_of_an_agent_that_is_a_tool_is_asked_about(actors: Desk) -> None:
    """OpenAI: the ids of such an agent's calls begin again in each of its runs; within one, a repeated id ends it."""
    tool = Tool()
    outer = Scripted(tool, [[("first", 0)], [("second", 0)], [("third", 0)]], "cleaner")
    inner = Scripted(tool, [*SAME[:1], [], *SAME[:1], [], [("a", 5)], [("a", 5)]])

    def agent_of(approvals: OpenAIApprovals) -> OpenAIAgent:
        guarded = approvals.guard(function_tool(tool.delete_records))
        cleaner = OpenAIAgent(name="cleaner", model=inner, tools=[guarded])
        return OpenAIAgent(name="a", model=outer, tools=[cleaner.as_tool("cleaner", "Cleans up")])

    async with approving(actors):
        await by_hand(actors, agent_of)
    assert tool.done == [5, 5, 5]
    assert await actors.executions() == ["succeeded"] * 3
    assert tool.told[:2] == ["done", "done"]
    assert "error occurred" in tool.told[2]


RUNS_OF_AGENTS: dict[str, tuple[Turns, Turns, Turns, list[int], str]] = {
    "twice in a turn of the outermost": (
        [[("outer", 0)]],
        [[("first", 0)], [("second", 0)]],
        [*SAME[:1], [], *SAME[:1], []],
        [5, 5],
        "",
    ),
    "at once, and other arguments": (
        [[("first", 0), ("second", 0)]],
        [[("inner", 0)], [("inner", 0)], [], []],
        [[("call_0", 5)], [("call_0", 7)], [], []],
        [5, 7],
        "",
    ),
    "at once, through two outer calls": (
        [[("first", 0), ("second", 0)]],
        [[("inner", 0)], [("inner", 0)], [], []],
        [*SAME, [], []],
        [],
        "has the same id",
    ),
    "at once, through two inner calls": (
        [[("outer", 0)]],
        [[("first", 0), ("second", 0)], []],
        [*SAME, [], []],
        [],
        "has the same id",
    ),
}
"""Calls of the outermost, the middle and the innermost model, what ran, and the error that ended the run."""


@pytest.mark.parametrize("case", RUNS_OF_AGENTS.values(), ids=list(RUNS_OF_AGENTS))
async def test_each_run_within_runs_is_asked_about(
    actors: Desk, case: tuple[Turns, Turns, Turns, list[int], str]
) -> None:
    """OpenAI: an agent that is a tool of an agent that is itself a tool repeats an id in each of its runs. Two that
    wait at once with equal arguments are refused, because the SDK cannot tell them apart.
    """
    tool, (outermost, middle, innermost, done, refusal) = Tool(), case
    models = [
        Scripted(tool, outermost, "tidier"),
        Scripted(tool, middle, "cleaner"),
        Scripted(tool, innermost),
    ]

    def agent_of(approvals: OpenAIApprovals) -> OpenAIAgent:
        guarded = approvals.guard(function_tool(tool.delete_records))
        cleaner = OpenAIAgent(name="cleaner", model=models[2], tools=[guarded])
        tidier = OpenAIAgent(name="tidier", model=models[1], tools=[cleaner.as_tool("cleaner", "Cleans up")])
        return OpenAIAgent(name="a", model=models[0], tools=[tidier.as_tool("tidier", "Tidies up")])

    refused = ""
    async with approving(actors):
        try:
            await by_hand(actors, agent_of)
        except SignoffError as error:
            refused = str(error)
    assert sorted(tool.done) == done
    assert await actors.executions() == ["succeeded"] * len(done)
    assert len(await actors.statuses()) == len(done)
    assert re.search(refusal, refused), refused
    assert bool(refused) == bool(refusal)


async def test_a_failure_is_reported_of_the_call_that_failed(actors: Desk) -> None:
    """OpenAI: of two calls that run at once under one id, in two runs of an agent that is a tool, the one fails."""
    tool = Tool()
    outer = Scripted(tool, [[("first", 0), ("second", 0)]], "cleaner")
    inner = Scripted(tool, [[("call_0", 5)], [("call_0", 7)], [], []])

    def delete_records(table_name: str, count: int) -> str:
        """Delete records."""
        if count == 5:
            raise RuntimeError("the disk is full")
        return tool.delete_records(table_name, count)

    async def words(context: Any, error: Exception) -> str:
        await until(lambda: ended(actors), 60)
        return "failed"

    def agent_of(approvals: OpenAIApprovals) -> OpenAIAgent:
        guarded = approvals.guard(function_tool(delete_records, failure_error_function=words))
        cleaner = OpenAIAgent(name="cleaner", model=inner, tools=[guarded])
        return OpenAIAgent(name="a", model=outer, tools=[cleaner.as_tool("cleaner", "Cleans up")])

    async with approving(actors):
        await by_hand(actors, agent_of)
    with ApprovalClient(actors.url, actors.key) as client:
        found = await asyncio.to_thread(client.pending, status="approved")
    ends = {each.arguments["count"]: each.raw["execution"]["status"] for each in found}
    assert ends == {5: "failed", 7: "succeeded"}


async def ended(actors: Desk) -> list[str]:
    """How executions ended so far."""
    return [each for each in await actors.executions() if each != "claimed"]


async def test_an_agent_keeps_its_own_hooks_and_conditions(actors: Desk) -> None:
    """OpenAI: a guard leaves alone what the agent itself hears of its run, and whether its tool is enabled."""
    tool, heard = Tool(), []

    class Hooks(AgentHooks[Any]):
        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            heard.append("response")

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            heard.append(result)

    hooks = Hooks()
    off: list[Any] = [False, lambda context, agent: False]
    model = Scripted(tool, SAME[:1])

    def agent_of(approvals: OpenAIApprovals) -> OpenAIAgent:
        guarded = [approvals.guard(function_tool(tool.delete_records))]
        for number, each in enumerate(off):
            other = function_tool(tool.delete_records, name_override=f"off_{number}", is_enabled=each)
            guarded.append(approvals.guard(other))
        return OpenAIAgent(name="a", model=model, tools=[*guarded], hooks=hooks)

    async with approving(actors):
        await by_hand(actors, agent_of)
    assert heard == ["response", "deletion 1", "response"]
    assert model.offered == ["delete_records"]


async def test_an_edit_of_a_call_without_an_id_runs_nothing(actors: Desk) -> None:
    """LangChain: the middleware finds an edit by the id of its call; without one it would run the model's arguments."""
    tool = Tool()
    agent = chat(tool, [[("", 50)]])
    with ApprovalClient(actors.url, actors.key) as client:
        agent.invoke({"messages": [("user", "go")]}, CONFIG)
        resuming = asyncio.to_thread(resume_when_decided, client, agent, CONFIG, timeout=30)
        running = asyncio.create_task(resuming)
        await actors.edit(await actors.asked(), arguments(3))
        values = await running
    assert tool.done == []
    assert "does not allow" in values["messages"][-2].text


async def test_what_an_agent_within_a_graph_did_is_on_its_card(actors: Desk) -> None:
    """LangGraph: each call of an agent that is a node is reported with its own result, also under one id."""
    tool = Tool()
    async with approving(actors):
        await by_langchain(actors, Path(), tool, SAME, within=True)
    with ApprovalClient(actors.url, actors.key) as client:
        found = await asyncio.to_thread(client.pending, status="approved")
    assert sorted(each.raw["execution"]["result"] for each in found) == ["deletion 1", "deletion 2"]


@pytest.mark.parametrize("within", [False, True], ids=["alone", "within a graph"])
async def test_a_batch_with_one_id_twice_is_refused(actors: Desk, within: bool) -> None:
    """LangChain: the middleware would give an edit of the one call to the other, too, so nobody is asked."""
    tool = Tool()
    agent = chat(tool, BOTH, within=within)
    agent.invoke({"messages": [("user", "go")]}, CONFIG)
    async with AsyncApprovalClient(actors.url, actors.key) as client:
        values = await aresume_when_decided(client, agent, CONFIG, timeout=0)
    assert await actors.statuses() == []
    assert tool.done == []
    assert "another call has the same id" in values["messages"][-2].text


async def test_a_batch_whose_ids_cannot_be_seen_is_refused(actors: Desk) -> None:
    """LangChain: LangGraph keeps the calls of an agent within a tool where nobody finds them: nobody is asked."""
    tool = Tool()
    inner = chat(tool, BOTH, within=True)

    def clean_up(task: str) -> str:
        """Clean up."""
        return str(inner.nodes["agent"].bound.invoke({"messages": [("user", task)]})["messages"][-1].text)

    asks = AIMessage("", tool_calls=[{"name": "clean_up", "args": {"task": "all"}, "id": "a"}])
    outer: Any = create_agent(
        Chat(responses=[asks, AIMessage("done")]),
        [clean_up, tool.delete_records],
        checkpointer=InMemorySaver(),
    )
    outer.invoke({"messages": [("user", "go")]}, CONFIG)
    async with AsyncApprovalClient(actors.url, actors.key) as client:
        with pytest.raises(UnsupportedInterrupt, match="make the agent a node"):
            await aresume_when_decided(client, outer, CONFIG, timeout=0)
    assert await actors.statuses() == []
    assert tool.done == []


async def test_a_failure_is_not_reported_as_the_result_of_an_earlier_call(actors: Desk) -> None:
    """LangChain: the card of the second call under an id says how that call ended."""
    tool = Tool()
    agent = chat(tool, SAME)

    def run() -> None:
        agent.invoke({"messages": [("user", "go")]}, CONFIG)
        with ApprovalClient(actors.url, actors.key) as client:
            resume_when_decided(client, agent, CONFIG, timeout=30)

    async with approving(actors):
        tool.breaks = 2
        with pytest.raises(RuntimeError):
            await asyncio.to_thread(run)
    assert tool.done == [5, 5]
    assert await actors.executions() == ["succeeded", "failed"]


async def test_a_call_in_the_background_is_a_new_one_in_the_next_turn(actors: Desk) -> None:
    """LangGraph: `call_key` names each call of a tool once, and two calls of a turn under one id are refused."""
    keys: list[str] = []

    def delete_records(count: int, runtime: ToolRuntime) -> str:
        """Delete records."""
        try:
            keys.append(call_key(runtime))
        except SignoffError as error:
            return str(error)
        return "deleted"

    def model(*turns: list[Call]) -> Any:
        calls = [
            [{"name": "delete_records", "args": {"count": count}, "id": name} for name, count in turn]
            for turn in turns
        ]
        return Chat(responses=[*(AIMessage("", tool_calls=each) for each in calls), AIMessage("done")])

    for turns in (SAME, [*SAME, *TWINS]):
        agent: Any = create_agent(model(*turns), [delete_records])
        values = await asyncio.to_thread(agent.invoke, {"messages": [("user", "go")]})
        told = [each.text for each in values["messages"] if isinstance(each, ToolMessage)]
        assert told[:2] == ["deleted", "deleted"]
        assert all("has the same id" in each for each in told[2:])
    assert len(keys) == len(set(keys)) == 4


async def test_a_key_of_a_programs_own_is_one_question(actors: Desk) -> None:
    """The client: a program that takes the model's ids as keys begins nothing twice, and gets no earlier result."""
    tool = Tool()
    async with AsyncApprovalClient(actors.url, actors.key) as client:

        @client.requires_approval(key=lambda count: "call_0", timeout=30)
        async def delete_records(count: int) -> str:
            return tool.delete_records("users", count)

        async with approving(actors):
            assert await delete_records(5) == "deletion 1"
        with pytest.raises(AlreadyClaimed):
            await delete_records(5)
        with pytest.raises(Conflict):
            await delete_records(7)
    assert tool.done == [5]
    assert await actors.statuses() == ["approved"]


@asynccontextmanager
async def coding_agent(actors: Desk) -> AsyncIterator[Client]:
    async with (
        AsyncApprovalClient(actors.url, actors.key) as asking,
        Client(server(asking, timeout=20)) as client,
    ):
        yield client


async def prompt(client: Client, call_id: str | None, count: int) -> dict[str, Any]:
    given = {"tool_name": "delete_records", "input": arguments(count), "tool_use_id": call_id}
    [block] = (await client.call_tool("permission_prompt", given)).content
    answer: dict[str, Any] = json.loads(getattr(block, "text", ""))
    return answer


@pytest.mark.parametrize("call_id", ["delete_records", "call_0", "functions.delete_records:0", "", "7"])
async def test_a_coding_agent_asks_again_under_an_id_that_names_no_single_call(
    actors: Desk, call_id: str
) -> None:
    """MCP: the same call and another one, one after the other and both at once, are questions of their own."""
    async with approving(actors), coding_agent(actors) as client:
        for number, count in enumerate((5, 7, 5), start=1):
            assert (await prompt(client, call_id, count))["updatedInput"] == arguments(count)
            assert len(await actors.statuses()) == number
        both = await asyncio.gather(prompt(client, call_id, 5), prompt(client, call_id, 5))
        assert [each["behavior"] for each in both] == ["allow", "allow"]
    assert await actors.executions() == ["succeeded"] * 5


async def test_a_coding_agent_finds_its_question_again(actors: Desk) -> None:
    """MCP: after a restart the same call is the same question; another call under its id is another one, and a call
    that was allowed is not allowed twice.
    """
    call_id = "toolu_01A09q90qw90lq917835lq9"
    async with coding_agent(actors) as client:
        running = asyncio.create_task(prompt(client, call_id, 5))
        await actors.decide(await actors.asked(), "rejected", reason="Not on a Friday")
        assert "Not on a Friday" in (await running)["message"]
        other = asyncio.create_task(prompt(client, call_id, 7))
        await actors.decide(await actors.asked(2))
        assert (await other)["updatedInput"] == arguments(7)
    async with coding_agent(actors) as client:
        assert "Not on a Friday" in (await prompt(client, call_id, 5))["message"]
        assert "already claimed" in (await prompt(client, call_id, 7))["message"]
    assert len(await actors.statuses()) == 2


async def test_a_key_that_a_model_repeats_names_another_question(actors: Desk) -> None:
    """MCP: other arguments under the same key are another question; other words about the same action are not."""

    async def ask(client: Client, count: int, words: str) -> dict[str, Any]:
        asked = {"action": "delete_records", "arguments": arguments(count), "description": words, "wait": 0}
        return (await client.call_tool("request_approval", {**asked, "key": "tidy"})).structured_content or {}

    async with coding_agent(actors) as client:
        first = await ask(client, 5, "Delete five")
        assert (await ask(client, 5, "Remove five records"))["request_id"] == first["request_id"]
        second = await ask(client, 7, "Delete seven")
        assert second["request_id"] != first["request_id"]
        assert (await ask(client, 7, "Delete seven"))["request_id"] == second["request_id"]
        await actors.decide(await actors.asked(2))
        word = await client.call_tool("get_decision", {"request_id": second["request_id"]})
        assert (word.structured_content or {})["arguments"] == arguments(7)
    assert await actors.statuses() == ["waiting", "approved"]

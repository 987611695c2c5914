"""Each framework converts the model's arguments: people and policy judge what the tool gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import pytest
from agents import Agent as OpenAIAgent
from agents import FunctionTool, Usage, function_tool
from agents import ModelResponse as OpenAIResponse
from agents.models.interface import Model as OpenAIModel
from agno.agent import Agent as AgnoAgent
from agno.db.sqlite import SqliteDb
from agno.models.openai import OpenAIChat
from agno.tools import tool as agno_tool
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from pydantic import BeforeValidator, HttpUrl, StringConstraints
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import DeferredToolRequests
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from signoff.client import ApprovalClient, AsyncApprovalClient
from signoff.integrations.agno import AgnoApprovals
from signoff.integrations.langchain import HumanInTheLoopMiddleware, resume_when_decided
from signoff.integrations.openai_agents import FileRunStore, OpenAIApprovals
from signoff.integrations.pydantic_ai import PausedRun, PydanticAIApprovals
from tests.integration.asking import rows
from tests.integration.integrations.conftest import Desk

Lower = Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)]
Cents = Annotated[int, BeforeValidator(lambda value: value * 100)]
Got = list[tuple[Any, ...]]
ALL = ("approve", "edit", "reject")
Drive = Callable[[Desk, Path, Callable[..., str], dict[str, Any]], Coroutine[Any, Any, None]]


@pytest.fixture
def policy() -> str:
    return """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]
allow_edit = true
editor_may_approve = true
unmatched = "allow"

[[checkpoint]]
checkpoint_id = "prod"
action_pattern = "deploy"
when = "args.env == 'prod'"

[[checkpoint]]
checkpoint_id = "big"
action_pattern = "deploy"
when = "has(args.amount) && args.amount > 1000"

[[checkpoint]]
checkpoint_id = "forced"
action_pattern = "deploy"
when = "args.force == true"
"""


def deploying(got: Got, env: Any = Lower, amount: int = 5000) -> Callable[..., str]:
    def deploy(env: Any, amount: int = amount, force: bool = False, site: Any = None) -> str:
        """Deploy."""
        got.append((env, amount, force, *([str(site)] if site else [])))
        return f"deployed {env}"

    deploy.__annotations__ |= {
        "env": env,
        "amount": int,
        "force": bool,
        "site": HttpUrl | None,
        "return": str,
    }
    return deploy


async def by_pydantic_ai(desk: Desk, path: Path, tool: Callable[..., str], given: dict[str, Any]) -> None:
    def model(messages: list[Any], info: Any) -> ModelResponse:
        if any(isinstance(each, ModelResponse) for each in messages):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("deploy", given, tool_call_id="c1")])

    async with AsyncApprovalClient(desk.url, desk.key) as client:
        approvals = PydanticAIApprovals(client, timeout=30)
        output: Any = [str, DeferredToolRequests]
        agent = PydanticAgent(FunctionModel(model), output_type=output, capabilities=[approvals])
        agent.tool_plain(requires_approval=True)(tool)
        result = await agent.run("go")
        while isinstance(result.output, DeferredToolRequests):
            paused = PausedRun.of_json(PausedRun.of(result).to_json())
            answers = await approvals.answer(paused.requests, key="run-1")
            result = await agent.run(message_history=paused.messages, deferred_tool_results=answers)


class Scripted(OpenAIModel):
    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given

    async def get_response(self, *rest: Any, **more: Any) -> OpenAIResponse:
        heard = more["input"]
        called = isinstance(heard, list) and any(each.get("type") == "function_call" for each in heard)
        text = ResponseOutputText(type="output_text", text="done", annotations=[])
        done: Any = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[text]
        )
        call: Any = ResponseFunctionToolCall(
            type="function_call", name="deploy", call_id="c1", arguments=json.dumps(self.given)
        )
        return OpenAIResponse(output=[done if called else call], usage=Usage(), response_id=None)

    def stream_response(self, *rest: Any, **more: Any) -> Any:
        raise NotImplementedError


async def by_openai_agents(desk: Desk, path: Path, tool: Callable[..., str], given: dict[str, Any]) -> None:
    async with AsyncApprovalClient(desk.url, desk.key) as client:
        approvals = OpenAIApprovals(client, timeout=30)
        guarded = approvals.guard(function_tool(strict_mode=False)(tool))
        agent = OpenAIAgent(name="a", model=Scripted(given), tools=[guarded])
        await approvals.run(agent, "go", key="run-1", store=FileRunStore(path))


class Chat(FakeMessagesListChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


async def by_langchain(
    desk: Desk, path: Path, tool: Callable[..., str], given: dict[str, Any], allowed: Any = ALL
) -> None:
    call: Any = {"name": "deploy", "args": given, "id": "c1"}
    model = Chat(responses=[AIMessage("", tool_calls=[call]), AIMessage("done")])
    gate = HumanInTheLoopMiddleware({"deploy": {"allowed_decisions": list(allowed)}})
    agent: Any = create_agent(model, [tool], middleware=[gate], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t-1"}}

    def run() -> None:
        agent.invoke({"messages": [("user", "go")]}, config)
        with ApprovalClient(desk.url, desk.key) as client:
            resume_when_decided(client, agent, config, timeout=30)

    await asyncio.to_thread(run)


async def by_agno(desk: Desk, path: Path, tool: Callable[..., str], given: dict[str, Any]) -> None:
    model = desk.site.house.model
    model.script([("deploy", given)], "done", "done")
    async with AsyncApprovalClient(desk.url, desk.key) as client:
        approvals = AgnoApprovals(client, timeout=30)
        agent = AgnoAgent(
            id="ops",
            model=OpenAIChat(id="signoff-scripted", base_url=model.base_url, api_key="sk-scripted"),
            tools=[approvals.guard(agno_tool(requires_confirmation=True)(tool))],
            db=SqliteDb(db_file=str(path / "runs.db")),
            telemetry=False,
        )
        await approvals.run(agent, "go", key="run-1")


FRAMEWORKS = [by_pydantic_ai, by_openai_agents, by_langchain, by_agno]
every = pytest.mark.parametrize("drive", FRAMEWORKS)


async def asked_about(desk: Desk) -> list[Any]:
    sql = "SELECT convert_from(action, 'UTF8')::json -> 'arguments' FROM request_revision ORDER BY request_id, n"
    return [each for (each,) in await rows(desk.site.db, sql)]


@every
@pytest.mark.parametrize(
    ("given", "judged", "run"),
    [
        ({"env": " PROD", "amount": 5}, {"env": "prod", "amount": 5}, ("prod", 5, False)),
        ({"env": "dev"}, {"env": "dev", "amount": 5000}, ("dev", 5000, False)),
        (
            {"env": "dev", "force": True, "amount": 5, "site": "HTTPS://EXAMPLE.com"},
            {"env": "dev", "amount": 5, "force": True, "site": "https://example.com/"},
            ("dev", 5, True, "https://example.com/"),
        ),
    ],
)
async def test_people_see_what_the_tool_gets(
    actors: Desk, tmp_path: Path, drive: Drive, given: dict[str, Any], judged: dict[str, Any], run: Any
) -> None:
    """A conversion or a default passes no checkpoint by; after the approval the tool gets exactly what was shown."""
    got: Got = []
    running = asyncio.create_task(drive(actors, tmp_path, deploying(got), given))
    request = await actors.asked()
    assert await asked_about(actors) == [{"force": False, "site": None} | judged]
    await actors.decide(request)
    await running
    assert got == [run]


@every
async def test_what_nobody_is_asked_about_runs_as_it_was_judged(
    actors: Desk, tmp_path: Path, drive: Drive
) -> None:
    """Policy lets `dev` through, so that is what runs."""
    got: Got = []
    await drive(actors, tmp_path, deploying(got, amount=7), {"env": " DEV "})
    assert got == [("dev", 7, False)]
    assert await asked_about(actors) == []


@every
@pytest.mark.parametrize("force", ["yes", 1])
async def test_a_looser_spelling_of_true_is_asked_about_or_refused(
    actors: Desk, tmp_path: Path, drive: Drive, force: Any
) -> None:
    """Where the framework reads it as true, people are asked about true; otherwise nothing runs."""
    got: Got = []
    given = {"env": "dev", "amount": 5, "force": force}
    running = asyncio.create_task(drive(actors, tmp_path, deploying(got), given))
    if drive is by_openai_agents:
        await running
        assert (got, await asked_about(actors)) == ([], [])
    else:
        request = await actors.asked()
        assert [each["force"] for each in await asked_about(actors)] == [True]
        await actors.decide(request, "rejected")
        await running
        assert got == []


@every
async def test_a_value_that_changes_each_time_is_asked_of_nobody(
    actors: Desk, tmp_path: Path, drive: Drive
) -> None:
    """50 would be shown and 5000 run: nothing is asked, nothing runs, and the agent goes on."""
    got: Got = []
    await drive(actors, tmp_path, deploying(got, env=Cents, amount=7), {"env": 50})
    assert (got, await asked_about(actors)) == ([], [])


@every
async def test_an_edit_that_the_tool_would_convert_does_not_run(
    actors: Desk, tmp_path: Path, drive: Drive
) -> None:
    """What the reviewer wrote was judged, so the tool may not make something else of it."""
    got: Got = []
    running = asyncio.create_task(drive(actors, tmp_path, deploying(got), {"env": "prod"}))
    edited = {"env": " TEST", "amount": 5, "force": False, "site": None}
    await actors.edit(await actors.asked(), edited)
    with pytest.raises(Exception, match="does not run") if drive is by_pydantic_ai else nullcontext():
        await running
    assert got == []
    assert await actors.executions() == ["failed"]


async def test_what_langchain_may_only_approve_as_it_is_is_refused(actors: Desk, tmp_path: Path) -> None:
    """Without `edit` it cannot be handed the judged value: nobody is asked, and nothing runs."""
    got: Got = []
    await by_langchain(actors, tmp_path, deploying(got), {"env": "PROD"}, allowed=("approve", "reject"))
    assert (got, await asked_about(actors)) == ([], [])


@pytest.mark.parametrize(
    ("given", "ran"),
    [
        ({"env": "dev"}, [{"env": "dev", "sizes": {"width": 3}, "amount": 7, "force": False}]),
        (
            {"env": "dev", "sizes": {}, "amount": 8},
            [{"env": "dev", "sizes": {"width": 3}, "amount": 8, "force": False}],
        ),
        ({"env": "dev", "amount": "8"}, []),
        ({"env": "dev", "more": 1}, []),
        ({}, []),
    ],
)
async def test_a_hand_made_openai_tool_is_held_to_its_schema(
    actors: Desk, tmp_path: Path, given: dict[str, Any], ran: list[Any]
) -> None:
    """Nothing is converted, and the defaults of its JSON schema are filled in before policy judges."""
    got: list[Any] = []

    async def invoke(context: Any, arguments: str) -> str:
        got.append(json.loads(arguments))
        return "deployed"

    schema = {
        "type": "object",
        "additionalProperties": False,
        "required": ["env"],
        "properties": {
            "env": {"type": "string"},
            "amount": {"type": "integer", "default": 7},
            "force": {"type": "boolean", "default": False},
            "sizes": {"$ref": "#/$defs/Sizes", "default": {"width": 3}},
        },
        "$defs": {"Sizes": {"type": "object", "properties": {"width": {"type": "integer", "default": 3}}}},
    }
    made = FunctionTool("deploy", "Deploy.", schema, invoke, strict_json_schema=False)
    async with AsyncApprovalClient(actors.url, actors.key) as client:
        approvals = OpenAIApprovals(client, timeout=30)
        agent = OpenAIAgent(name="a", model=Scripted(given), tools=[approvals.guard(made)])
        await approvals.run(agent, "go", key="run-1", store=FileRunStore(tmp_path))
    assert got == ran
    assert await asked_about(actors) == []

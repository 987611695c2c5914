"""pydantic-ai's own agents against a running Signoff: approval, edit, refusal, silence, and a process that dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults

from agent.usecases import pause
from signoff.client import AsyncApprovalClient
from signoff.client.operations import WaitLimit
from signoff.errors import AlreadyClaimed, ApiError, SignoffError
from signoff.integrations.pydantic_ai import PausedRun, PydanticAIApprovals
from tests.integration.integrations.conftest import ROOT, Desk

EXAMPLE = ROOT / "examples" / "pydantic_ai_agent.py"
FIFTY = {"table_name": "users", "count": 50}


class Cleaner:
    """A pydantic-ai agent, rebuilt in each process; `deleted` records its tool's work."""

    def __init__(self, actors: Desk, calls: dict[str, dict[str, Any]] | None = None, **options: Any) -> None:
        self.calls = calls or {"call-1": FIFTY}
        self.deleted: list[tuple[str, int]] = []
        self.fails: Exception | None = None
        self.client = AsyncApprovalClient(actors.url, actors.key)
        self.approvals = PydanticAIApprovals(self.client, timeout=20, **options)
        self.agent = Agent(
            FunctionModel(self._model),
            output_type=[str, DeferredToolRequests],
            capabilities=[self.approvals],
        )
        self.agent.tool_plain(requires_approval=True)(self.delete_records)
        self.agent.tool_plain(requires_approval=True)(self.read_records)

    def delete_records(self, table_name: str, count: int) -> str:
        """Delete records."""
        self.deleted.append((table_name, count))
        if self.fails:
            raise self.fails
        return f"Deleted {count} records from {table_name}"

    def read_records(self, table_name: str) -> str:
        """Read records."""
        return f"Read {table_name}"

    async def paused(self) -> PausedRun:
        """A run that waits for people, kept as JSON and read back."""
        result = await self.agent.run("Tidy up")
        return PausedRun.of_json(PausedRun.of(result).to_json())

    async def go_on(self, paused: PausedRun, answers: DeferredToolResults) -> str:
        """The run's answer."""
        result = await self.agent.run(message_history=paused.messages, deferred_tool_results=answers)
        return str(result.output)

    def _model(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts = messages[-1].parts
        inputs = [str(part.content) for part in parts if isinstance(part, ToolReturnPart | UserPromptPart)]
        if any(isinstance(part, ToolReturnPart) for part in parts):
            return ModelResponse(parts=[TextPart(" | ".join(inputs))])
        tools = {"call-read": "read_records"}
        calls = [
            ToolCallPart(tools.get(name, "delete_records"), arguments, tool_call_id=name)
            for name, arguments in self.calls.items()
        ]
        return ModelResponse(parts=calls)


@pytest.fixture
async def cleaner(actors: Desk) -> AsyncIterator[Cleaner]:
    """An agent that deletes fifty records."""
    agent = Cleaner(actors)
    yield agent
    await agent.client.close()


async def test_what_people_decide_is_what_runs(actors: Desk, cleaner: Cleaner) -> None:
    """A click in Slack lets the tool run; an edit changes what runs, and the model learns of it; an edit that does not
    fit fails.
    """

    async def asked(number: int) -> tuple[PausedRun, asyncio.Task[DeferredToolResults], str]:
        paused = await cleaner.paused()
        answer = cleaner.approvals.answer(paused.requests, key=f"run-{number}")
        return paused, asyncio.create_task(answer), await actors.asked(number)

    paused, answering, _ = await asked(1)
    assert not cleaner.deleted
    await actors.click()
    assert await cleaner.go_on(paused, await answering) == "Deleted 50 records from users"

    paused, answering, request = await asked(2)
    await actors.edit(request, FIFTY | {"count": 3})
    output = await cleaner.go_on(paused, await answering)
    assert "Deleted 3 records" in output
    assert "A reviewer changed the arguments" in output

    paused, answering, request = await asked(3)
    await actors.edit(request, FIFTY | {"count": "many"})
    await cleaner.go_on(paused, await answering)
    assert cleaner.deleted == [("users", 50), ("users", 3)]
    assert await actors.executions() == ["succeeded", "succeeded", "failed"]


async def test_an_approval_is_of_one_call_only(actors: Desk, cleaner: Cleaner) -> None:
    """Answers about other calls than those of the messages run nothing: neither what people approved of one with
    other arguments, nor what policy lets run unasked.
    """
    paused = await cleaner.paused()
    asked = (("delete_records", FIFTY | {"count": 1}), ("read_records", {"table_name": "users"}))
    for tool, arguments in asked:
        other = DeferredToolRequests(
            approvals=[ToolCallPart(tool, arguments, tool_call_id="call-1")],
            metadata=paused.requests.metadata,
        )
        answering = asyncio.create_task(cleaner.approvals.answer(other, key=tool))
        if tool == "delete_records":
            await actors.decide(await actors.asked())
        with pytest.raises(SignoffError, match="does not run"):
            await cleaner.go_on(paused, await answering)
    assert not cleaner.deleted
    assert await actors.executions() == ["failed"]


async def test_partial_words_of_people(actors: Desk) -> None:
    """Of three calls one is approved, one is rejected with its reason, and one runs unasked, as policy says."""
    cleaner = Cleaner(
        actors,
        {"call-a": FIFTY, "call-b": FIFTY | {"count": 7}, "call-read": {"table_name": "users"}},
    )
    paused = await cleaner.paused()
    answering = asyncio.create_task(cleaner.approvals.answer(paused.requests, key="run-1"))
    for number in (1, 2):
        request = await actors.asked(number)
        about = (await actors.grace.get(f"/pending/{request}")).json()["action"]["arguments"]
        if about["count"] == 7:
            await actors.decide(request, "rejected", reason="Keep those")
        else:
            await actors.decide(request)
    answer = await cleaner.go_on(paused, await answering)
    assert cleaner.deleted == [("users", 50)]
    assert "Deleted 50 records from users" in answer
    assert "rejected by U0GRACE: Keep those" in answer
    assert "Read users" in answer
    await cleaner.client.close()


async def test_silence_is_no_consent(actors: Desk, cleaner: Cleaner) -> None:
    """Undecided, `answer` times out; expired, the call is denied; paused or self-approved, it does not run."""
    paused = await cleaner.paused()
    with pytest.raises(TimeoutError):
        await cleaner.approvals.answer(paused.requests, key="run-1", timeout=0)
    assert await actors.statuses() == ["waiting"]
    await actors.expire()
    answer = await cleaner.go_on(paused, await cleaner.approvals.answer(paused.requests, key="run-1"))
    assert "expired" in answer
    answering = asyncio.create_task(cleaner.approvals.answer(paused.requests, key="run-2"))
    await pause.pause(actors.site.db, None, by="test")
    await actors.decide(await actors.asked(2))
    with pytest.raises(ApiError, match="paused"):
        await answering
    with pytest.raises(SignoffError, match="was not approved through Signoff"):
        await cleaner.go_on(paused, paused.requests.build_results(approve_all=True))
    assert not cleaner.deleted


async def test_inside_the_run_waits_itself(actors: Desk) -> None:
    """With `inside` the agent's code stays as it was: approved, the tool runs; undecided in time, it is withdrawn."""
    cleaner = Cleaner(actors, inside=True)
    running = asyncio.create_task(cleaner.agent.run("Tidy up", conversation_id="chat-1"))
    await actors.decide(await actors.asked())
    assert (await running).output == "Deleted 50 records from users"
    cleaner.approvals._timeout = WaitLimit.of(0.2)
    assert "nobody has decided" in (await cleaner.agent.run("Tidy up")).output
    assert cleaner.deleted == [("users", 50)]
    assert await actors.statuses() == ["approved", "cancelled"]
    first, second = await actors.site.sessions()
    assert (first, second not in (None, "chat-1")) == ("chat-1", True)
    await cleaner.client.close()


async def test_another_life_of_the_run_repeats_nothing(actors: Desk, cleaner: Cleaner) -> None:
    """What an earlier life did is answered with what came of it; what it began and never told is not begun again."""
    cleaner.fails = RuntimeError("the disk is full")
    paused = await cleaner.paused()
    answering = asyncio.create_task(cleaner.approvals.answer(paused.requests, key="run-1"))
    await actors.decide(await actors.asked())
    with pytest.raises(RuntimeError):
        await cleaner.go_on(paused, await answering)
    assert await actors.executions() == ["failed"]
    again = Cleaner(actors)
    answer = await again.go_on(paused, await again.approvals.answer(paused.requests, key="run-1"))
    assert "the disk is full" in answer

    answering = asyncio.create_task(again.approvals.answer(paused.requests, key="run-2"))
    await actors.decide(await actors.asked(2))
    await answering
    with pytest.raises(AlreadyClaimed, match="its outcome is not known yet"):
        await cleaner.approvals.answer(paused.requests, key="run-2")
    assert not again.deleted
    await again.client.close()


async def test_the_example_survives_kill_9(actors: Desk, tmp_path: Path) -> None:
    """Killed while it waits and restarted, the example continues with the decision made meanwhile."""
    kept = tmp_path / "nightly-17.json"
    first = await actors.run(EXAMPLE, str(kept))
    request = await actors.asked()
    first.kill()
    await first.wait()
    await actors.click()
    second = await actors.run(EXAMPLE, str(kept))
    out, err = await asyncio.wait_for(second.communicate(), 30)
    assert out.decode().splitlines() == [
        "deleting 50 records from users",
        "Done: Deleted 50 records from users",
    ], err.decode()
    assert await actors.asked() == request
    assert await actors.statuses() == ["approved"]
    assert await actors.executions() == ["succeeded"]

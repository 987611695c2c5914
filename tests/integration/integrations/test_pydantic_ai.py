"""pydantic-ai's own agents against a running Signoff: approval, edit, refusal, silence, and a process that dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.exceptions import CallDeferred
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
        calls = [
            ToolCallPart(self.tool_of(name), arguments, tool_call_id=name)
            for name, arguments in self.calls.items()
        ]
        return ModelResponse(parts=calls)

    def tool_of(self, name: str) -> str:
        return {"call-read": "read_records", "call-consult": "consult"}.get(name, "delete_records")


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


REGION = {"question": "Which region?", "options": ["eu", "us"]}
ORDER = {
    "question": "What do you need?",
    "form": {"type": "object", "properties": {"item": {"type": "string"}, "count": {"type": "integer"}}},
}


class Asker(Cleaner):
    """Its tool `ask_person` asks what the model gives it, and `consult` what another program answers."""

    def __init__(self, actors: Desk, *asked: dict[str, Any], **options: Any) -> None:
        calls = {f"call-ask-{number}": {"asked": each} for number, each in enumerate(asked)}
        super().__init__(actors, calls, **options)
        self.agent.tool_plain(self.ask_person)
        self.agent.tool_plain(self.consult)

    def ask_person(self, asked: dict[str, Any]) -> str:
        """Ask a person."""
        raise CallDeferred(metadata=asked, kind="question")

    def consult(self) -> str:
        """Ask another program."""
        raise CallDeferred(metadata={"question": "This one is not for people"})

    def tool_of(self, name: str) -> str:
        return "ask_person" if name.startswith("call-ask") else super().tool_of(name)


@pytest.fixture
async def asker(actors: Desk) -> AsyncIterator[Asker]:
    agent = Asker(actors, REGION, ORDER)
    agent.calls |= {"call-1": FIFTY, "call-consult": {}}
    yield agent
    await agent.client.close()


async def test_an_answer_is_the_result_of_the_tool_that_asks(actors: Desk, asker: Asker) -> None:
    """An option and a form beside an action to approve; kept as JSON, asked once under its key. What no person is asked
    is left to the program.
    """
    paused = await asker.paused()
    with pytest.raises(TimeoutError):
        await asker.approvals.answer(paused.requests, key="run-1", timeout=0)
    again = PausedRun.of_json(paused.to_json())
    answering = asyncio.create_task(asker.approvals.answer(again.requests, key="run-1"))
    waiting = {each.description: each.id for each in await asker.client.pending()}
    assert len(waiting) == 3
    await actors.decide(waiting["The agent asks: “Which region?”"], "answered", answer="the moon")
    order = {"item": "pens", "count": 3}
    await actors.decide(waiting["The agent asks: “What do you need?”"], "answered", answer=order)
    await actors.decide(waiting["Delete 50 records from “users”"])
    answers = await answering
    assert answers.answered_by["call-ask-0"] == "U0GRACE"
    assert "call-consult" not in answers.calls
    answers.calls["call-consult"] = "consulted"
    output = await asker.go_on(again, answers)
    assert output == f"the moon | {order} | Deleted 50 records from users | consulted"
    assert await actors.executions() == ["succeeded"]


@pytest.mark.parametrize("inside", [False, True])
async def test_a_question_of_a_tool_without_an_answer(actors: Desk, inside: bool) -> None:
    """A rejection fails the call with its reason, and so does what people cannot be asked, unasked."""
    nested = {"question": "What?", "form": {"type": "object", "properties": {"a": {"type": "object"}}}}
    asker = Asker(actors, REGION, nested, REGION | {"urgent": True}, inside=inside)

    async def run() -> str:
        if inside:
            return str((await asker.agent.run("Tidy up")).output)
        result: Any = await asker.agent.run("Tidy up")
        answers = await asker.approvals.answer(result.output, key="run-1")
        return await asker.go_on(PausedRun.of(result), answers)

    running = asyncio.create_task(run())
    await actors.decide(await actors.asked(), "rejected", reason="Look it up")
    first, second, third = (await running).split(" | ")
    assert first.startswith("There is no answer: ")
    assert "Look it up" in first
    assert "a: object cannot be asked for in a form" in second
    assert "nobody was asked about it: $.urgent" in third
    assert await actors.statuses() == ["rejected"]
    await asker.client.close()


async def test_an_answer_is_of_one_turn_only(actors: Desk, asker: Asker) -> None:
    """Without the capability nothing says in which turn a tool asked: an error, and nobody is asked."""
    call = ToolCallPart("ask_person", {"asked": REGION}, tool_call_id="call-ask-0")
    kinds: Any = {"call-ask-0": "question"}
    requests = DeferredToolRequests(calls=[call], metadata={"call-ask-0": REGION}, _kinds=kinds)
    with pytest.raises(ValueError, match="in which turn"):
        await asker.approvals.answer(requests, key="run-1")
    assert await actors.statuses() == []


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

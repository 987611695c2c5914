"""The OpenAI Agents SDK, over HTTP to a scripted model, against a running Signoff."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from agents.result import RunResult
from openai import AsyncOpenAI

from signoff.client import AsyncApprovalClient
from signoff.client.operations import WaitLimit
from signoff.errors import AlreadyClaimed
from signoff.integrations.openai_agents import FileRunStore, OpenAIApprovals
from tests.integration.integrations.conftest import ROOT, Desk

EXAMPLE = ROOT / "examples" / "openai_agents_agent.py"
FIFTY = {"table_name": "users", "count": 50}
TASK = "delete_records table_name=users count=50"


class Cleaner:
    """An agent of the SDK, rebuilt in each process; `deleted` records its tool's work."""

    def __init__(self, actors: Desk, folder: Path) -> None:
        set_tracing_disabled(True)
        self.deleted: list[tuple[str, int]] = []
        self.fails = False
        self.client = AsyncApprovalClient(actors.url, actors.key)
        self.approvals = OpenAIApprovals(self.client, timeout=60)
        self.store = FileRunStore(folder)
        openai = AsyncOpenAI(base_url=actors.site.house.model.base_url, api_key="sk-scripted")
        self.agent = Agent(
            name="cleaner",
            model=OpenAIChatCompletionsModel("signoff-scripted", openai),
            tools=[self.approvals.guard(self.tool("delete_records")), self.tool("wipe_records")],
        )

    def tool(self, name: str) -> FunctionTool:
        """A tool; the second one needs approval as the SDK has it, and nobody guards it."""

        def delete_records(table_name: str, count: int) -> str:
            """Delete records."""
            self.deleted.append((table_name, count))
            if self.fails:
                raise RuntimeError("the disk is full")
            return f"Deleted {count} records from {table_name}"

        return function_tool(delete_records, name_override=name, needs_approval=True)

    def begin(self, task: str = TASK, key: str = "run-1") -> asyncio.Task[RunResult]:
        """A run of its own, which waits for people."""
        return asyncio.create_task(self.approvals.run(self.agent, task, key=key, store=self.store))


@pytest.fixture
async def cleaner(actors: Desk, tmp_path: Path) -> AsyncIterator[Cleaner]:
    """The agent."""
    agent = Cleaner(actors, tmp_path)
    yield agent
    await agent.client.close()


@pytest.mark.parametrize(
    "options",
    [
        {"run_config": RunConfig(group_id="chat-1")},
        {"run_config": {"group_id": "chat-1"}},
        {"session": SQLiteSession("chat-1")},
    ],
)
async def test_a_run_is_part_of_the_sdks_own_conversation(
    actors: Desk, cleaner: Cleaner, options: dict[str, Any]
) -> None:
    """Runs of one conversation have its name as their session, not their own keys."""
    running = asyncio.create_task(
        cleaner.approvals.run(cleaner.agent, TASK, key="run-1", store=cleaner.store, **options)
    )
    await actors.decide(await actors.asked())
    await running
    assert await actors.site.sessions() == ["chat-1"]


async def test_two_runs_with_the_same_call_share_no_decision(actors: Desk, cleaner: Cleaner) -> None:
    """Of two runs with a call of the same id and arguments, each gets what was decided about its own."""
    both = asyncio.Barrier(2)

    async def life(key: str) -> str:
        state = (await Runner.run(cleaner.agent, TASK)).to_state()
        ids.append(state.get_interruptions()[0].call_id)
        await cleaner.approvals.decide(state, key=key)
        await both.wait()
        return str((await Runner.run(cleaner.agent, state)).final_output)

    ids: list[str | None] = []
    first = asyncio.create_task(life("run-1"))
    await actors.decide(await actors.asked())
    second = asyncio.create_task(life("run-2"))
    await actors.edit(await actors.asked(2), FIFTY | {"count": 3})
    assert "Deleted 50 records" in await first
    assert "Deleted 3 records" in await second
    assert ids[0] == ids[1]


async def test_silence_is_no_consent(actors: Desk, cleaner: Cleaner) -> None:
    """Undecided, `run` times out and the run stays kept; expired, the call is rejected; self-approved, it fails."""
    cleaner.approvals._timeout = WaitLimit.of(0)
    with pytest.raises(TimeoutError):
        await cleaner.begin()
    assert await actors.statuses() == ["waiting"]
    await actors.expire()
    cleaner.approvals._timeout = WaitLimit.of(60)
    result = await cleaner.begin()
    assert "expired" in result.final_output
    assert await cleaner.store.read("run-1") is None

    state = (await Runner.run(cleaner.agent, TASK)).to_state()
    state.approve(state.get_interruptions()[0])
    with pytest.raises(Exception, match="was not approved through Signoff"):
        await Runner.run(cleaner.agent, state)
    assert not cleaner.deleted


async def test_another_life_of_the_run_repeats_nothing(
    actors: Desk, cleaner: Cleaner, tmp_path: Path
) -> None:
    """What an earlier life did is answered with what came of it; what it began and never told is not begun again."""
    states: dict[str, Any] = {}
    cleaner.fails = True
    running = cleaner.begin()
    request = await actors.asked()
    states["run-1"] = await cleaner.store.read("run-1")
    await actors.decide(request)
    await running
    assert await actors.executions() == ["failed"]
    again = Cleaner(actors, tmp_path)
    await again.store.write("run-1", states["run-1"])
    assert "failed in an earlier attempt" in (await again.begin()).final_output

    running = again.begin(key="run-2")
    request = await actors.asked(2)
    kept = await again.store.read("run-2")
    await actors.decide(request)
    await again.client.claim(request)
    running.cancel()
    await again.store.write("run-2", str(kept))
    with pytest.raises(AlreadyClaimed, match="its outcome is not known yet"):
        await cleaner.begin(key="run-2")
    assert not again.deleted
    await again.client.close()


async def test_the_example_survives_kill_9(actors: Desk, cleaner: Cleaner, tmp_path: Path) -> None:
    """Killed while it waits, the example's run continues in another process with the decision made meanwhile."""
    model = {"OPENAI_BASE_URL": actors.site.house.model.base_url, "OPENAI_API_KEY": "sk-scripted"}
    first = await actors.run(EXAMPLE, str(tmp_path), **model)
    await actors.asked()
    first.kill()
    out, err = await first.communicate()
    assert not out, err.decode()
    await actors.click()
    result = await cleaner.begin(key="nightly-17")
    assert "Deleted 50 records from users" in result.final_output
    assert cleaner.deleted == [("users", 50)]
    assert await actors.statuses() == ["approved"]
    assert await actors.executions() == ["succeeded"]

"""Model turns: leases, limits, and a model that fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agent.database.pools import Database
from agent.domain.run import RunStatus
from agent.runtime.agents import Agent
from agent.runtime.model import Model, Reply
from agent.runtime.model_turn import MAX_TRIES, advance_run
from agent.runtime.tool import tool
from signoff_demo.sandbox.model import ModelFault, ScriptedCall, ScriptedTurn
from tests.commit_cutter import CommitCutter, Cut


@tool(read_only=True)
def look(what: str) -> str:
    """Look."""
    return f"{what} is there"


def agent(**more: Any) -> Agent:
    return Agent("looker", "Look.", tools=[look], **more)


LOOKING = ScriptedTurn("I look.", (ScriptedCall("look", {"what": "it"}),))


async def fail_until_given_up(on: Any, run_id: Any) -> int:
    """Play, without waiting for the back-off, until the run is over; returns how often the model was asked."""
    while (await on.run(run_id)).status is RunStatus.WORKING:
        await on.sql("UPDATE agent_run SET look_at = NULL")
        await advance_run(on.services, run_id)
    return len(on.model.requests)


@pytest.mark.parametrize(
    "fault",
    [
        ModelFault.http(429),
        ModelFault.http(500),
        ModelFault.http(503),
        ModelFault.reset(),
        ModelFault.garbage(),
    ],
    ids=str,
)
async def test_a_passing_failure_is_retried(stage, fault) -> None:
    """After one failure the run waits a little, without lease or loss, and the next try is a normal turn."""
    on = await stage(agent())
    on.model.script(fault, "Hello.")
    run_id = await on.go("looker", "hello")
    run = await on.run(run_id)
    assert run.status is RunStatus.WORKING
    ((wait, lease),) = await on.sql(
        "SELECT extract(epoch FROM look_at - clock_timestamp())::float, lease_until FROM agent_run"
    )
    assert 0.3 < wait <= 1.25
    assert lease is None
    await fail_until_given_up(on, run_id)
    assert (await on.run(run_id)).answer == "Hello."


async def test_a_model_that_hangs_is_given_up_in_time(stage) -> None:
    """A provider that never answers costs one timeout, then the run is retried."""
    on = await stage(agent(), timeout=0.2)
    on.model.script(ModelFault.hang(), "Hello.")
    run_id = await on.go("looker", "hello")
    assert (await on.run(run_id)).status is RunStatus.WORKING
    await fail_until_given_up(on, run_id)
    assert (await on.run(run_id)).answer == "Hello."


async def test_retry_after_is_honoured(stage) -> None:
    """The provider's own wish for a pause is kept."""
    on = await stage(agent())
    on.model.script(ModelFault.http(429, retry_after=30))
    await on.go("looker", "hello")
    ((wait,),) = await on.sql("SELECT extract(epoch FROM look_at - clock_timestamp())::float FROM agent_run")
    assert 28 < wait <= 30


async def test_after_six_failures_the_run_fails_with_the_cause(stage) -> None:
    """A model that stays away ends the run, and the cause says what was wrong, without any body or key."""
    on = await stage(agent())
    on.model.script(*[ModelFault.http(503)] * 10)
    run_id = await on.start("looker", "hello")
    assert await fail_until_given_up(on, run_id) == MAX_TRIES
    run = await on.run(run_id)
    assert (run.status, run.cause) == (RunStatus.FAILED, "the model's provider answered 503")


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_what_cannot_get_better_fails_at_once(stage, status) -> None:
    """A refused key, model or request is not tried again."""
    on = await stage(agent())
    on.model.script(ModelFault.http(status))
    run_id = await on.go("looker", "hello")
    run = await on.run(run_id)
    assert run.status is RunStatus.FAILED
    assert f"answered {status}" in (run.cause or "")
    assert len(on.model.requests) == 1


async def test_the_step_limit_ends_a_run_that_turns_in_circles(stage) -> None:
    """max_steps bounds the turns since a person last spoke."""
    on = await stage(agent(max_steps=3))
    on.model.script(*[LOOKING] * 10)
    run_id = await on.go("looker", "look")
    run = await on.run(run_id)
    assert run.status is RunStatus.FAILED
    assert "step limit: 3 turns" in (run.cause or "")
    assert len(on.model.requests) == 3


async def test_the_token_limit_ends_a_run(stage) -> None:
    """max_tokens bounds what a run may cost."""
    on = await stage(agent(max_tokens=10))
    on.model.script(*[LOOKING] * 10)
    run_id = await on.go("looker", "look")
    run = await on.run(run_id)
    assert run.status is RunStatus.FAILED
    assert "token limit" in (run.cause or "")
    assert len(on.model.requests) == 1


async def test_an_agent_that_is_not_loaded_is_waited_for(stage) -> None:
    """A run of an agent that this worker does not know is left for another try, not failed."""
    on = await stage(agent())
    run_id = await on.go("nobody", "hello")
    assert (await on.run(run_id)).status is RunStatus.WORKING
    assert on.model.requests == []


async def test_a_worker_that_lost_its_lease_writes_nothing(stage) -> None:
    """A turn of a worker whose lease went to another is dropped: one answer, one message, no duplicate calls."""
    on = await stage(agent())
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slowly(_: Any) -> str:
        asked.set()
        await answer.wait()
        return "From the one that lost its lease."

    on.model.script(slowly, "From the one that took over.")
    run_id = await on.start("looker", "hello")
    losing = asyncio.create_task(advance_run(on.services, run_id))
    await asyncio.wait_for(asked.wait(), 10)
    await on.sql("UPDATE agent_run SET lease_until = clock_timestamp() - interval '1 second'")
    await advance_run(on.other_worker(), run_id)
    answer.set()
    await losing
    said = [message.text for message in await on.messages(run_id) if message.role == "assistant"]
    assert said == ["From the one that took over."]
    assert (await on.run(run_id)).answer == "From the one that took over."


async def test_the_heartbeat_keeps_a_thinking_run(stage) -> None:
    """While the model thinks, its run's lease is extended and nobody else makes the turn."""
    on = await stage(agent())
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slowly(_: Any) -> str:
        asked.set()
        await answer.wait()
        return "At last."

    on.model.script(slowly)
    run_id = await on.start("looker", "hello")
    thinking = asyncio.create_task(advance_run(on.services, run_id))
    await asyncio.wait_for(asked.wait(), 10)
    await on.sql("UPDATE agent_run SET lease_until = clock_timestamp() - interval '1 second'")
    await on.services.heartbeat.beat()
    await advance_run(on.other_worker(), run_id)
    answer.set()
    await thinking
    assert len(on.model.requests) == 1
    assert (await on.run(run_id)).answer == "At last."


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_turn_whose_commit_is_not_answered_is_written_once(
    stage: Any, cutter: CommitCutter, cut: Cut
) -> None:
    """The reply is not lost with the answer of the database, and the model is asked once."""

    class Cutting(Model):
        async def complete(self, *args: Any, **options: Any) -> Reply:
            reply = await on.services.model.complete(*args, **options)
            cutter.cut_next(cut)
            return reply

    on = await stage(agent())
    on.model.script("Hello.")
    run_id = await on.start("looker", "hello")
    async with Database(cutter.url) as db:
        cutting = Cutting("scripted", api_key="none")
        await advance_run(replace(on.services, db=db, model=cutting), run_id)
        await cutting.close()
    assert cutter.cuts == 1
    assert len(on.model.requests) == 1
    assert [message.text for message in await on.messages(run_id)] == ["hello", "Hello."]
    assert (await on.run(run_id)).status is RunStatus.COMPLETED

"""Tasks of a function agent run side by side, durably: each has its place in the record, in any order of completion."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

import pytest

from agent.domain.request import RequestStatus, Verdict
from agent.domain.run import CallState, CallView, RunStatus
from agent.runtime.calls import advance_call
from agent.runtime.function_agents import FunctionAgent
from agent.usecases import runs
from signoff import StepFailed, ask, function_agent, step, tool
from tests.integration.runtime.conftest import Stage

done: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done():
    done.clear()


def work(what: str) -> str:
    """Does something that can be counted."""
    done.append(what)
    return what


def fail(what: str) -> str:
    """Fails after it did something."""
    done.append(what)
    raise RuntimeError("no luck")


async def asked(stage: Stage, run_id: UUID, question: str) -> CallView:
    [call] = [call for call in await stage.calls(run_id) if f'"{question}"' in call.raw_arguments]
    return call


async def states(stage: Stage, run_id: UUID) -> dict[str, int]:
    return Counter(call.state.value for call in await stage.calls(run_id))


async def _branch(name: str) -> str:
    decision = await ask(f"{name}?")
    return await step(work, what=f"{name} {decision.cause}")


@function_agent(tools=[work])
async def both(task: str) -> str:
    await step(work, what="before")
    said = await asyncio.gather(_branch("left"), _branch("right"))
    return ", ".join(said)


async def test_two_questions_are_asked_at_once_and_each_answer_goes_to_its_branch(stage):
    """Both cards are there at the same time; the branch that is answered continues while the other one waits."""
    s = await stage(both)
    run_id = await s.go("both", "x")
    assert await states(s, run_id) == {"answered": 1, "asked": 2}
    await s.reject(await asked(s, run_id, "right?"))
    assert done == ["before", "right rejected"]
    assert (await s.run(run_id)).status is RunStatus.PENDING_APPROVAL
    await s.approve(await asked(s, run_id, "left?"))
    run = await s.run(run_id)
    assert (run.status, run.answer) == (RunStatus.COMPLETED, "left approved, right rejected")
    assert done == ["before", "right rejected", "left approved"]


async def test_each_look_may_be_made_by_another_process(stage):
    """Nothing of the branches is in memory: a process that never saw the run continues each, each step once."""
    s = await stage(both)
    run_id = await s.go("both", "x")
    for question in ("left?", "right?"):
        await s.vote(await asked(s, run_id, question), Verdict.APPROVE)
        s = await stage(both)
        await s.play()
    assert (await s.run(run_id)).answer == "left approved, right approved"
    assert sorted(done) == ["before", "left approved", "right approved"]


async def test_a_waiting_branch_holds_nothing(stage):
    """With two questions open, a message of a person changes nothing, and afterwards nothing is due."""
    s = await stage(both)
    run_id = await s.go("both", "x")
    await runs.add_message(s.db, run_id, "hurry", None, "m1")
    await s.play()
    assert await states(s, run_id) == {"answered": 1, "asked": 2}
    assert await s.due() == []


def swapped(*names: str) -> FunctionAgent:
    @function_agent(name="both", tools=[work])
    async def other(task: str) -> str:
        await step(work, what="before")
        return ", ".join(await asyncio.gather(*map(_branch, names)))

    return other


@pytest.mark.parametrize("names", [("right", "left"), ("left",), ("left", "right", "middle")])
async def test_branches_that_changed_are_found_out(stage, names: Sequence[str]):
    """Another order of branches fails the run and says where; so does one fewer. One more just has more to do."""
    s = await stage(both)
    run_id = await s.go("both", "x")
    await s.vote(await asked(s, run_id, "left?"), Verdict.APPROVE)
    s = await stage(swapped(*names))
    await s.play()
    run = await s.run(run_id)
    if len(names) == 3:
        assert await states(s, run_id) == {"answered": 3, "asked": 2}
        return
    if names == ("left",):
        assert (run.status, done) == (RunStatus.FAILED, ["before", "left approved"])
        assert "ended 1 recorded steps too early" in (run.cause or "")
        return
    assert (run.status, done) == (RunStatus.FAILED, ["before"])
    assert 'is recorded as ask {"question":"left?"} but is now ask {"question":"right?"}' in (run.cause or "")


@function_agent(tools=[work])
async def race(task: str) -> str:
    questions = [asyncio.create_task(ask(f"{name}?"), name=name) for name in ("left", "right")]
    [first], rest = await asyncio.wait(questions, return_when=asyncio.FIRST_COMPLETED)
    for late in rest:
        late.cancel()
    await step(work, what=f"{first.get_name()} came first")
    (await ask("Go on?")).require()
    return first.get_name()


async def test_a_race_ends_as_it_did_before(stage):
    """Which of two answers came first is recorded: it does not change when both are known. The other is withdrawn."""
    s = await stage(race)
    run_id = await s.go("race", "x")
    await s.approve(await asked(s, run_id, "right?"))
    loser = await s.request(await asked(s, run_id, "left?"))
    assert (loser.status, done) == (RequestStatus.CANCELLED, ["right came first"])
    await s.approve(await asked(s, run_id, "Go on?"))
    run = await s.run(run_id)
    assert (run.status, run.answer, done) == (RunStatus.COMPLETED, "right", ["right came first"])


async def test_a_race_with_both_answers_at_hand_has_one_end(stage):
    """Both answers arrive before the function runs again: the earlier one is delivered first, and stays the first."""
    s = await stage(race)
    run_id = await s.go("race", "x")
    for question in ("right?", "left?"):
        call = await asked(s, run_id, question)
        await s.vote(call, Verdict.APPROVE)
        await advance_call(s.services, call.id)
    await s.play()
    await s.approve(await asked(s, run_id, "Go on?"))
    assert ((await s.run(run_id)).answer, done) == ("right", ["right came first"])


async def test_what_nobody_waits_for_ends_with_the_function(stage):
    """A function that returns while its question waits is done: the question is withdrawn, and the run completes."""

    @function_agent(tools=[work])
    async def hasty(task: str) -> str:
        question = asyncio.create_task(ask("Anybody?"))
        await step(work, what="one")
        return f"done, {question.done()}"

    s = await stage(hasty)
    run_id = await s.go("hasty", "x")
    run = await s.run(run_id)
    assert (run.status, run.answer) == (RunStatus.COMPLETED, "done, False")
    request = await s.request(await asked(s, run_id, "Anybody?"))
    assert (request.status, request.decision.reason) == (
        RequestStatus.CANCELLED,
        "its agent does not wait for it any more",
    )


async def test_a_group_that_fails_stops_the_rest(stage):
    """A person's no in one branch ends the run as denied, by way of an ExceptionGroup; the other card is withdrawn."""

    async def needs(name: str) -> None:
        (await ask(f"{name}?")).require()

    @function_agent(tools=[work])
    async def grouped(task: str) -> str:
        async with asyncio.TaskGroup() as group:
            for name in ("left", "right"):
                group.create_task(needs(name))
        return "done"

    s = await stage(grouped)
    run_id = await s.go("grouped", "x")
    await s.reject(await asked(s, run_id, "left?"))
    run = await s.run(run_id)
    assert (run.status, run.cause) == (RunStatus.DENIED, "rejected")
    assert (await s.request(await asked(s, run_id, "right?"))).status is RequestStatus.CANCELLED


async def test_one_branch_fails_and_the_other_goes_on(stage):
    """With `return_exceptions` the function receives both, now and when it is run again."""

    @function_agent(tools=[work, fail])
    async def careful(task: str) -> str:
        said = await asyncio.gather(step(fail, what="bad"), _branch("good"), return_exceptions=True)
        (await ask("Sure?")).require()
        return f"{type(said[0]).__name__}, {said[1]}"

    s = await stage(careful)
    run_id = await s.go("careful", "x")
    assert (await s.run(run_id)).status is RunStatus.PENDING_APPROVAL
    await s.approve(await asked(s, run_id, "good?"))
    await s.approve(await asked(s, run_id, "Sure?"))
    assert (await s.run(run_id)).answer == f"{StepFailed.__name__}, good approved"
    assert done == ["bad", "good approved"]


async def test_many_steps_at_once_are_done_once_each(stage):
    """Forty steps of one gather are proposed together, and come back in order."""

    @function_agent(tools=[work])
    async def wide(task: str) -> str:
        said = await asyncio.gather(*(step(work, what=f"{n}") for n in range(40)))
        return " ".join(said)

    s = await stage(wide)
    run = await s.run(await s.go("wide", "x"))
    assert run.answer == " ".join(map(str, range(40)))
    assert Counter(done) == {f"{n}": 1 for n in range(40)}


async def test_what_ends_by_itself_is_waited_for(stage):
    """A task that sleeps for a moment or works in a thread continues, although another task waits for people."""

    async def slowly() -> str:
        await asyncio.sleep(0.02)
        await asyncio.to_thread(done.append, "in a thread")
        return await step(work, what="after a while")

    @function_agent(tools=[work])
    async def mixed(task: str) -> str:
        _, said = await asyncio.gather(ask("May I?"), slowly())
        return said

    s = await stage(mixed)
    run_id = await s.go("mixed", "x")
    assert "after a while" in done
    await s.approve(await asked(s, run_id, "May I?"))
    assert (await s.run(run_id)).answer == "after a while"


async def test_tasks_may_wait_for_each_other(stage):
    """A queue between two tasks is within the function: it is no reason to wait, and none to fail."""

    @function_agent(tools=[work])
    async def passed_on(task: str) -> str:
        queue: asyncio.Queue[str] = asyncio.Queue()

        async def makes() -> None:
            for name in ("one", "two"):
                (await ask(f"{name}?")).require()
                await queue.put(name)

        maker = asyncio.create_task(makes())
        said = [await step(work, what=await queue.get()) for _ in range(2)]
        await maker
        return " ".join(said)

    s = await stage(passed_on)
    run_id = await s.go("passed_on", "x")
    await s.approve(await asked(s, run_id, "one?"))
    await s.approve(await asked(s, run_id, "two?"))
    assert ((await s.run(run_id)).answer, done) == ("one two", ["one", "two"])


async def test_a_step_in_a_loop_of_its_own_is_refused(stage):
    """A thread with an event loop of its own has no place in the record: the run fails, and says why."""

    @function_agent(tools=[work])
    async def elsewhere(task: str) -> str:
        return await asyncio.to_thread(asyncio.run, step(work, what="never"))

    s = await stage(elsewhere)
    run = await s.run(await s.go("elsewhere", "x"))
    assert (run.status, done) == (RunStatus.FAILED, [])
    assert "in the function's own event loop, not in another thread's" in (run.cause or "")


async def test_a_tool_in_a_branch_is_approved_like_any_other(stage):
    """Two guarded calls side by side are two requests; only the one that is approved has its effect."""

    @tool(requires_approval=True)
    def delete(table: str) -> str:
        """Delete a table."""
        done.append(table)
        return table

    @function_agent(tools=[delete])
    async def tidy(task: str) -> str:
        said = await asyncio.gather(*(step(delete, table=t) for t in ("a", "b")), return_exceptions=True)
        return " ".join(each if isinstance(each, str) else type(each).__name__ for each in said)

    s = await stage(tidy)
    run_id = await s.go("tidy", "x")
    [a, b] = await s.calls(run_id)
    await s.reject(a)
    assert (done, (await s.calls(run_id))[1].state) == ([], CallState.ASKED)
    await s.approve(b)
    assert ((await s.run(run_id)).answer, done) == ("CollaborationError b", ["b"])


async def test_one_after_the_other_has_no_places(stage):
    """What a function does one at a time is matched by number alone."""

    @function_agent(tools=[work])
    async def plain(task: str) -> str:
        for what in ("one", "two"):
            await step(work, what=what)
        return "done"

    s = await stage(plain)
    run_id = await s.go("plain", "x")
    assert [call.place for call in await s.calls(run_id)] == [None, None]
    assert await s.sql("SELECT branches FROM agent_run") == [(False,)]
    s = await stage(both)
    assert [call.place for call in await s.calls(await s.go("both", "x"))] == [None, "1/1", "2/1"]

"""A function agent sleeps as a row, and starts other work that it awaits later."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.domain.rules import Rule
from agent.domain.run import CallState, RunStatus
from agent.store import views
from agent.usecases import runs
from signoff import CollaborationError, ask, function_agent, sleep, start, step
from tests.integration.runtime.conftest import ASKER, Stage

done: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done():
    done.clear()


def work(what: str) -> str:
    """Does something that can be counted."""
    done.append(what)
    return what


@function_agent(tools=[work])
async def patient(task: str) -> str:
    await step(work, what="before")
    await sleep("3d")
    await step(work, what="after")
    return "awake"


LATER = "UPDATE tool_call SET retry_at = retry_at - interval '3 days', created_at = created_at - interval '3 days'"


async def test_a_sleep_is_a_row_and_the_clock_of_the_database_ends_it(stage):
    """Nothing is due before its time; then another process wakes the run, and the time slept counts as waiting."""
    s = await stage(patient)
    run_id = await s.go("patient", "x")
    run = await s.run(run_id)
    assert (run.status, done, await s.due()) == (RunStatus.WORKING, ["before"], [])
    assert run.sleeping_until is not None
    assert timedelta(days=2, hours=23) < run.sleeping_until - run.updated_at < timedelta(days=3, hours=1)
    assert await s.sql("SELECT lease_worker FROM agent_run") == [(None,)]

    await s.sql(LATER)
    async with s.db.connection() as connection:
        slept = await views.seconds_waited(connection, run_id, run.created_at - timedelta(days=3))
    assert timedelta(seconds=slept) > timedelta(days=2, hours=23)
    s = await stage(patient)
    await s.play()
    run = await s.run(run_id)
    assert (run.status, run.answer, run.sleeping_until) == (RunStatus.COMPLETED, "awake", None), run.cause
    assert done == ["before", "after"]


async def test_no_checkpoint_asks_about_a_sleep(stage):
    """A checkpoint that names every tool asks about the steps, not about the time between them."""
    rule = Rule(checkpoint_id="all", action_pattern=".*", risk="low", on_reject="tell_model")
    s = await stage(patient, policy=Policy((rule,)))
    run_id = await s.go("patient", "x")
    await s.approve((await s.calls(run_id))[0])
    assert (await s.run(run_id)).sleeping_until is not None


async def test_a_sleeping_run_can_be_cancelled(stage):
    """Its requester ends it in the middle of its sleep; nothing wakes it then."""
    s = await stage(patient)
    run_id = await s.go("patient", "x")
    assert await runs.cancel(s.db, run_id, Standing(ASKER))
    await s.sql(LATER)
    await s.play()
    run = await s.run(run_id)
    assert (run.status, run.sleeping_until, done) == (RunStatus.CANCELLED, None, ["before"])


async def test_a_question_beside_a_sleep_is_a_reminder(stage):
    """One task sleeps while another waits for people; the function continues with the first that ends."""

    @function_agent(tools=[work])
    async def reminding(task: str) -> str:
        question = asyncio.create_task(ask("May I?"))
        pause = asyncio.create_task(sleep("3d"))
        await asyncio.wait([question, pause], return_when=asyncio.FIRST_COMPLETED)
        if not question.done():
            await step(work, what="reminded")
        else:
            pause.cancel()
        return (await question).cause

    s = await stage(reminding)
    run_id = await s.go("reminding", "x")
    assert (await s.run(run_id)).status is RunStatus.PENDING_APPROVAL
    await s.sql(LATER)
    await s.play()
    assert done == ["reminded"]
    await s.approve(next(call for call in await s.calls(run_id) if call.request_id))
    assert (await s.run(run_id)).answer == "approved"

    quick = await s.go("reminding", "y")
    await s.approve(next(call for call in await s.calls(quick) if call.request_id))
    assert ((await s.run(quick)).answer, done) == ("approved", ["reminded"])
    assert {call.state for call in await s.calls(quick)} == {CallState.ANSWERED}


@pytest.mark.parametrize("time", [-1, "400d", timedelta(days=366)])
async def test_a_time_that_cannot_be_is_refused(time):
    """The error is raised where the mistake is made."""
    with pytest.raises(ValueError, match=r"365 days|negative"):
        await sleep(time)


async def test_an_agent_with_a_step_of_that_name_keeps_it(stage):
    """A step named `sleep` works as it did; `signoff.sleep` beside it says that the name is taken."""

    def nap(seconds: float) -> str:
        """Its own."""
        return f"slept {seconds:g}"

    nap.__name__ = "sleep"

    @function_agent(tools=[nap])
    async def own(task: str) -> str:
        if task == "mine":
            return await step(nap, seconds=1)
        await sleep(1)
        return "never"

    s = await stage(own)
    assert (await s.run(await s.go("own", "mine"))).answer == "slept 1"
    assert 'its own step named "sleep"' in ((await s.run(await s.go("own", "x"))).cause or "")


# --- in the background ------------------------------------------------------------------------------------


@function_agent(tools=[work])
async def helper(task: str) -> str:
    (await ask(f"Help with {task}?")).require()
    return await step(work, what=f"helped with {task}")


async def below(s: Stage, run_id: UUID) -> list[tuple[UUID, str]]:
    rows = await s.sql(
        "SELECT id, status::text FROM agent_run WHERE parent_run_id = :id ORDER BY task", id=run_id
    )
    return [(row.id, row.status) for row in rows]


async def question(s: Stage, run_id: UUID):
    return next(call for call in await s.calls(run_id) if call.request_id)


@function_agent(tools=[helper, work])
async def chief(task: str) -> str:
    first = await start(helper, task="one")
    second = await start(helper, task="two")
    await step(work, what="went on")
    if task == "hasty":
        return "done"
    try:
        said = await second
    except CollaborationError as no:
        said = no.cause
    return f"{said}, {await first}, {await first}"


async def test_a_child_in_the_background_is_awaited_later(stage):
    """Both begin at once and the function continues; each result is there when it is awaited, in any order."""
    s = await stage(chief)
    run_id = await s.go("chief", "x")
    children = await below(s, run_id)
    assert (len(children), done) == (2, ["went on"])
    assert (await s.run(run_id)).askers_below == ("helper",)
    await s.approve(await question(s, children[0][0]))
    await s.reject(await question(s, children[1][0]))
    run = await s.run(run_id)
    assert (run.status, run.answer) == (RunStatus.COMPLETED, "rejected, helped with one, helped with one")
    assert done == ["went on", "helped with one"]


async def test_a_child_that_nobody_awaits_ends_with_the_function(stage):
    """The function returned: what it began and did not wait for is cancelled, and its question withdrawn."""
    s = await stage(chief)
    run_id = await s.go("chief", "hasty")
    run = await s.run(run_id)
    assert (run.status, run.answer) == (RunStatus.COMPLETED, "done")
    assert [status for _, status in await below(s, run_id)] == ["cancelled", "cancelled"]
    assert await s.sql("SELECT 1 FROM approval_request WHERE status = 'waiting'") == []


async def test_who_cancels_the_parent_cancels_what_it_started(stage):
    """As with agents that are waited for at once."""
    s = await stage(chief)
    run_id = await s.go("chief", "x")
    assert await runs.cancel(s.db, run_id, Standing(ASKER))
    assert [status for _, status in await below(s, run_id)] == ["cancelled", "cancelled"]

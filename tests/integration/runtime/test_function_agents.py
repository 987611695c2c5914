"""Function agents: what is recorded is not done again, waiting is a row, and a function that changes is found out."""

from __future__ import annotations

import asyncio
import re
import threading
from dataclasses import dataclass
from datetime import timedelta

import pytest

from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.domain.request import Verdict
from agent.domain.rules import Defaults
from agent.domain.run import RunStatus
from agent.runtime.function_agents import FunctionAgent
from agent.usecases import requests, runs
from agent.usecases.runs import resumption
from signoff import Agent, StepFailed, ask, function_agent, set_label, set_status, step, tool
from signoff_demo.examples.durable_task import durable_task
from slackbot.cards import request_card, run_root
from tests.integration.runtime.conftest import ASKER

done: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done():
    done.clear()


def work(what: str) -> dict[str, int]:
    """Does something that can be counted."""
    done.append(what)
    return {"rows": len(done)}


async def fail(what: str) -> None:
    """Fails after it did something."""
    done.append(what)
    raise RuntimeError(f"no {what} today")


@function_agent(tools=[work])
async def twice(task: str) -> str:
    first = await step(work, what="one")
    decision = await ask(f"Go on with {task}?", timeout="2h", arguments={"rows": first["rows"]})
    if not decision:
        return f"stopped: {decision.cause}, {decision.reason}"
    assert decision.reviewer is not None
    second = await step(work, what="two")
    who = f"{decision.reviewer.user_id}, {decision.arguments}"
    return f"{first['rows']} and {second['rows']}, {who}, {', '.join(decision.notes)}"


async def asked(stage, run_id):
    (call,) = [call for call in await stage.calls(run_id) if call.request_id]
    return call


async def test_it_goes_on_where_it_stood(stage):
    """Between its steps lies a person's word; each step is done once, and gives back what it gave then."""
    s = await stage(twice)
    run_id = await s.go("twice", "the tables")
    run = await s.run(run_id)
    assert (run.status, done) == (RunStatus.PENDING_APPROVAL, ["one"])
    request = await s.request(await asked(s, run_id))
    assert request.description == "Go on with the tables?"
    assert request.expires_at - request.created_at == timedelta(hours=2)

    await s.vote(await asked(s, run_id), Verdict.APPROVE, "once only")
    await s.play()
    run = await s.run(run_id)
    assert (run.status, done) == (RunStatus.COMPLETED, ["one", "two"])
    assert run.answer == "1 and 2, U0REVIEWER, {'rows': 1}, once only"


async def test_waiting_holds_nothing(stage):
    """A parked run has no lease and nothing due; it is a row until somebody decides."""
    s = await stage(twice)
    run_id = await s.go("twice", "the tables")
    assert await s.due() == []
    assert await s.sql("SELECT lease_worker FROM agent_run WHERE id = :id", id=run_id) == [(None,)]


async def test_a_no_reaches_the_function(stage):
    """A rejection is a decision that the function receives, with the reviewer's reason."""
    s = await stage(twice)
    run_id = await s.go("twice", "the tables")
    await s.reject(await asked(s, run_id), "not today")
    run = await s.run(run_id)
    assert (run.status, run.answer, done) == (RunStatus.COMPLETED, "stopped: rejected, not today", ["one"])


@dataclass
class Order:
    number: int
    parts: tuple[str, ...]


def find(number: int) -> Order:
    return Order(number, ("pen", "ink"))


async def test_a_step_returns_what_its_function_returns(stage):
    """The recorded JSON is read back as the function's own type, each time the function is run again."""

    @function_agent(tools=[find])
    async def buying(task: str) -> str:
        order = await step(find, number=7)
        (await ask("May I?")).require()
        return f"{order}, {order == find(7)}"

    s = await stage(buying)
    run_id = await s.go("buying", "x")
    await s.approve(await asked(s, run_id))
    assert (await s.run(run_id)).answer == f"{find(7)}, True"


async def test_a_refused_question_keeps_its_arguments(stage):
    """A decision about arguments has arguments, whatever it is."""

    @function_agent
    async def asking(task: str) -> str:
        decision = await ask("May I?", arguments={"rows": 7})
        return f"{decision.cause}: {decision.arguments['rows']}"

    s = await stage(asking)
    run_id = await s.go("asking", "x")
    await s.reject(await asked(s, run_id))
    assert (await s.run(run_id)).answer == "rejected: 7"


async def test_nobody_answers(stage):
    """A deadline that passes is no approval: the run ends denied, and its cause says expired."""
    s = await stage(durable_task)
    run_id = await s.go("durable-task", "move house")
    await s.sql(
        "UPDATE approval_request SET created_at = now() - interval '2 h', expires_at = now() - interval '1 h'"
    )
    await requests.expire_due(s.db)
    await s.play()
    run = await s.run(run_id)
    assert (run.status, run.cause) == (RunStatus.DENIED, "expired")


async def test_an_expired_question_that_is_asked_again_goes_on_to_the_end(stage):
    """Approved after all, the function continues from its question and does what is left, each step once."""

    @function_agent(tools=[work])
    async def three(task: str) -> str:
        (await ask("May I?")).require()
        await step(work, what="one")
        await step(work, what="two")
        return "all done"

    s = await stage(three)
    run_id = await s.go("three", "x")
    for _ in range(2):
        await s.sql(
            "UPDATE approval_request SET created_at = now() - interval '2 h',"
            " expires_at = now() - interval '1 h' WHERE status = 'waiting'"
        )
        await requests.expire_due(s.db)
        await s.play()
        assert (await s.run(run_id)).status is RunStatus.DENIED
        expired = (await s.calls(run_id))[-1]
        await requests.ask_again(s.db, expired.request_id, Standing(ASKER), path="test")
        await s.play()
    await s.approve((await s.calls(run_id))[-1])
    run = await s.run(run_id)
    assert (run.status, run.answer, done) == (RunStatus.COMPLETED, "all done", ["one", "two"])


async def test_the_seed_from_start_to_end(stage):
    """It prepares, publishes its status and its question, waits, and is successful after an approval."""
    s = await stage(durable_task)
    run_id = await s.go("durable-task", "move house")
    run = await s.run(run_id)
    assert (run.status, run.progress) == (RunStatus.PENDING_APPROVAL, "waiting for a person's word")
    request = await s.request(await asked(s, run_id))
    assert request.description == "Should I proceed with task: move house?"
    await s.approve(await asked(s, run_id))
    run = await s.run(run_id)
    assert (run.status, run.answer) == (RunStatus.COMPLETED, "Agent successful: move house")
    assert run.progress == "carrying out"


async def test_a_rejection_ends_it_denied(stage, caplog):
    """Who requires an approval ends denied without one, and the log says CollaborationError: rejected."""
    s = await stage(durable_task)
    run_id = await s.go("durable-task", "move house")
    await s.reject(await asked(s, run_id), "stay")
    run = await s.run(run_id)
    assert (run.status, run.cause) == (RunStatus.DENIED, "rejected")
    assert [call.tool for call in await s.calls(run_id)] == ["prepare", "ask"]


async def test_another_process_takes_it_up(stage):
    """The rows suffice: a process that never saw the run finishes it after the decision."""
    s = await stage(twice)
    run_id = await s.go("twice", "the tables")
    await s.vote(await asked(s, run_id), Verdict.APPROVE)
    second = await stage(twice)
    await second.play()
    assert ((await s.run(run_id)).status, done) == (RunStatus.COMPLETED, ["one", "two"])


def changed(*, second: str) -> FunctionAgent:
    @function_agent(name="twice", tools=[work])
    async def other(task: str) -> str:
        await step(work, what=second)
        await ask(f"Go on with {task}?")
        await step(work, what="never")
        return "done"

    return other


async def test_a_function_that_changed_is_found_out(stage):
    """What is recorded does not fit another function: the run fails, says where, and nothing is executed."""
    s = await stage(twice)
    run_id = await s.go("twice", "the tables")
    await s.vote(await asked(s, run_id), Verdict.APPROVE)
    await (await stage(changed(second="another"))).play()
    run = await s.run(run_id)
    assert (run.status, done) == (RunStatus.FAILED, ["one"])
    assert run.cause.startswith(
        'step 1 is recorded as work {"what":"one"} but is now work {"what":"another"}'
    )


async def test_a_function_that_ends_too_early_is_found_out(stage):
    """A function that does less than is recorded fails, instead of answering as if nothing had happened."""
    s = await stage(twice)
    run_id = await s.go("twice", "the tables")
    await s.vote(await asked(s, run_id), Verdict.APPROVE)

    @function_agent(name="twice", tools=[work])
    async def less(task: str) -> str:
        return "nothing to do"

    await (await stage(less)).play()
    run = await s.run(run_id)
    assert run.status is RunStatus.FAILED
    assert "ended 2 recorded steps too early" in run.cause


async def test_a_step_that_raised_raises_again(stage):
    """A failed step is not tried again; its error is the function's to handle, now and at every replay."""

    @function_agent(tools=[fail, work])
    async def careful(task: str) -> str:
        try:
            await step(fail, what="luck")
        except StepFailed as error:
            await step(work, what="instead")
            return str(error)
        return "lucky"

    s = await stage(careful)
    run = await s.run(await s.go("careful", "x"))
    assert (run.status, done) == (RunStatus.COMPLETED, ["luck", "instead"])
    assert re.fullmatch(r"fail: RuntimeError: no luck today \(test_function_agents\.py:\d+\)", run.answer)


async def _bare() -> None:
    try:
        await ask("May I?")
    except:  # noqa: E722 - what this is about
        await asyncio.sleep(0)


async def _grouped() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(ask("May I?"))


async def _gathered() -> None:
    await asyncio.gather(ask("May I?"), return_exceptions=True)


@pytest.mark.parametrize("wait", [_bare, _grouped, _gathered])
async def test_a_question_cannot_be_passed_over(stage, wait):
    """Whatever the function catches while it has to wait, it does nothing more until people have answered."""

    @function_agent(tools=[work])
    async def hasty(task: str) -> str:
        await wait()
        await step(work, what="not asked about")
        return "all done"

    s = await stage(hasty)
    run_id = await s.go("hasty", "x")
    assert (await s.run(run_id)).status is RunStatus.PENDING_APPROVAL
    await runs.add_message(s.db, run_id, "hurry", None, "m1")
    await s.play()
    assert ((await s.run(run_id)).status, done) == (RunStatus.PENDING_APPROVAL, [])

    await s.approve(await asked(s, run_id))
    run = await s.run(run_id)
    assert (run.status, run.answer, done) == (RunStatus.COMPLETED, "all done", ["not asked about"])


async def test_a_function_that_forgets_its_question_is_not_done(stage):
    """A function that catches everything and returns has not answered: its question still waits."""

    @function_agent(tools=[work])
    async def forgetful(task: str) -> str:
        await _bare()
        return "deleted"

    s = await stage(forgetful)
    run = await s.run(await s.go("forgetful", "x"))
    assert (run.status, run.answer) == (RunStatus.PENDING_APPROVAL, None)


async def test_a_task_that_is_left_behind_does_nothing(stage):
    """A step that the function began and did not wait for is not done once the function has returned."""
    left_behind = []

    @function_agent(tools=[work])
    async def hasty(task: str) -> str:
        left_behind.append(asyncio.create_task(step(work, what="unawaited")))
        return "done"

    s = await stage(hasty)
    run = await s.run(await s.go("hasty", "x"))
    assert (run.status, run.answer, done) == (RunStatus.COMPLETED, "done", [])
    assert left_behind[0].cancelled()


async def test_a_function_that_blocks_fails_in_its_time(stage):
    """A function that blocks its event loop ends its run as failed after `seconds`; nothing waits for it longer."""
    release = threading.Event()

    @function_agent(tools=[work], seconds=0.05)
    async def stuck(task: str) -> str:
        release.wait(10)
        return str(await step(work, what="too late"))

    s = await stage(stuck)
    run = await s.run(await s.go("stuck", "x"))
    release.set()
    await s.services.user_code.call(asyncio.sleep, {"delay": 0}, name="the next", within=10)
    assert (run.status, run.cause) == (RunStatus.FAILED, "TimeoutError: it did not end within 0.05 s")
    assert (len(await s.calls(run.id)), done) == (0, [])


async def test_what_the_function_raises_ends_the_run(stage):
    """An error of the author's own ends the run as failed, with its words."""

    @function_agent(tools=[work])
    async def broken(task: str) -> str:
        raise ValueError("no such table")

    s = await stage(broken)
    run = await s.run(await s.go("broken", "x"))
    assert run.status is RunStatus.FAILED
    assert re.fullmatch(r"ValueError: no such table \(test_function_agents\.py:\d+\)", run.cause)


@tool(requires_approval=True, risk="high")
def delete_records(table_name: str, count: int) -> str:
    """Delete records."""
    done.append(f"deleted {count} of {table_name}")
    return "deleted"


async def test_a_tool_in_a_step_is_judged_like_any_call(stage):
    """A step that is a @tool asks people as its author and the checkpoints say; a no ends the run as denied."""

    @function_agent(tools=[delete_records])
    async def cleaner(task: str) -> str:
        return await step(delete_records, table_name=task, count=5)

    s = await stage(cleaner)
    run_id = await s.go("cleaner", "users")
    assert done == []
    await s.approve(await asked(s, run_id))
    assert ((await s.run(run_id)).answer, done) == ("deleted", ["deleted 5 of users"])

    refused = await s.go("cleaner", "orders")
    await s.reject(await asked(s, refused))
    assert ((await s.run(refused)).status, done) == (RunStatus.DENIED, ["deleted 5 of users"])


async def test_unmatched_calls_of_a_model_are_asked_and_plain_steps_run(stage):
    """The author's own functions run where no checkpoint names them; tools of a model would be asked about."""
    s = await stage(twice, policy=Policy(defaults=Defaults(unmatched="deny")))
    run_id = await s.go("twice", "the tables")
    assert done == ["one"]
    assert (await s.run(run_id)).status is RunStatus.PENDING_APPROVAL


async def test_status_is_told_once_and_only_going_forward(stage):
    """A status that is set during replay is not posted again."""
    passes = []

    @function_agent(tools=[work])
    async def chatty(task: str) -> str:
        await set_status("first")
        await step(work, what="one")
        await set_status("second")
        passes.append(1)
        await ask("Go on?")
        return "done"

    s = await stage(chatty)
    run_id = await s.go("chatty", "x")
    assert (await s.run(run_id)).progress == "second"
    await s.approve(await asked(s, run_id))
    assert (await s.run(run_id)).progress == "second"
    assert len(passes) == 2


def test_mistakes_are_told_where_they_are_made():
    """A definition that could not work is refused at once."""
    with pytest.raises(TypeError, match="async def"):
        function_agent(name="plain")(lambda task: task)

    def ask(question: str) -> str:
        """Would hide the question."""
        return question

    async def fine(task: str) -> str:
        return task

    with pytest.raises(ValueError, match='cannot be named "ask"'):
        function_agent(tools=[ask])(fine)
    assert isinstance(function_agent(fine), Agent)


async def test_outside_an_agent_there_is_nothing_to_wait_for():
    """`ask` outside of a run says so, instead of failing somewhere deep."""
    with pytest.raises(RuntimeError, match="inside a @function_agent"):
        await ask("Anybody there?")


async def test_progress_is_one_message_however_often_it_is_told(stage):
    """Each `set_status` is an update of the run's first message, drawn from the facts; no line is added for it."""
    s = await stage(durable_task)
    run_id = await s.go("durable-task", "move house")
    root_messages = await s.sql(
        "SELECT kind::text, coalesce_key FROM delivery WHERE run_id = :id AND kind = 'run_root'", id=run_id
    )
    assert [tuple(each) for each in root_messages] == [("run_root", f"run:{run_id}")]
    lines = await s.sql(
        "SELECT body ->> 'line' FROM delivery WHERE run_id = :id AND kind = 'run_line'", id=run_id
    )
    assert [line for (line,) in lines] == ["pending"]


async def test_an_approval_of_another_version_ends_where_the_new_one_begins(stage):
    """An approval for version 1 lets version 2 begin nothing, until somebody resumes the run."""

    def first() -> str:
        on.services.registry._agents["careful"] = made("2")  # deployed while it runs
        done.append("first")
        return ""

    def second() -> str:
        done.append("second")
        return ""

    async def careful(task: str) -> str:
        (await ask("Both?")).require()
        await step(first)
        await step(second)
        return "done"

    def made(version: str) -> FunctionAgent:
        return function_agent(name="careful", tools=[first, second], version=version)(careful)

    on = await stage(made("1"))
    run_id = await on.go("careful", "x")
    await on.approve((await on.calls(run_id))[0])
    run = await on.run(run_id)
    assert (done, run.status) == (["first"], RunStatus.FAILED)
    assert "people approved this under version 1 of the agent, which is now at version 2" in (run.cause or "")
    await resumption.resume(on.db, run_id, Standing(ASKER))
    await on.play()
    assert (done, (await on.run(run_id)).status) == (["first", "second"], RunStatus.COMPLETED)


async def test_a_label_stands_beside_the_name_of_the_agent(stage):
    """The function names its run: on the card, the run's message and in lists, as inert as every text of agents."""

    @function_agent(tools=[work])
    async def named(task: str) -> str:
        await set_label(f"{task} <@U0BOSS> ✅ “approved”")
        (await ask("Go on?")).require()
        await set_label("EU, done")
        return "done"

    s = await stage(named)
    run_id = await s.go("named", "EU")
    run = await s.run(run_id)
    request = await s.request(await asked(s, run_id))
    assert run.chain == request.chain == 'named “EU <@U0BOSS> ✅ "approved"”'
    for card in (run_root(run), request_card(request)):
        shown = str(card.blocks)
        assert "EU <@U0BOSS>" in shown
        assert "EU <@U0BOSS> ✅" not in shown
        assert "<@U0BOSS>" not in card.text
    await s.approve(await asked(s, run_id))
    assert (await s.run(run_id)).label == "EU, done"

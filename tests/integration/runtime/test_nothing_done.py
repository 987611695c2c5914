"""A tool that says that it did nothing, and a function whose result has no JSON form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from agent.database.pools import Database
from agent.domain.api_keys import Principal
from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.domain.request import ExecutionStatus
from agent.domain.request_list import RequestKind
from agent.domain.rules import Defaults
from agent.domain.run import CallOutcome, RunStatus
from agent.runtime import external_calls
from agent.runtime.agents import Agent
from agent.store import views
from agent.usecases import retention
from agent.usecases.calls import Outcome
from agent.usecases.runs import resumption
from signoff import NotDone, function_agent, step, tool
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from slackbot.cards import history_list, request_card, run_root, thread_line
from slackbot.web.inbox import history
from tests.integration.runtime.conftest import ASKER, TEAM, Stage
from tests.rendered import rendered
from tests.unit.cards.conftest import words

WHY = "order 7 has been refunded already"
POLICY = Policy(defaults=Defaults(on_reject="tell_model"))
Staged = Callable[..., Awaitable[Stage]]


@tool
def refund(order: int) -> str:
    """Refund an order."""
    raise NotDone(WHY)


def looked_up(order: int) -> dict[str, int]:
    """Of the order."""
    raise NotDone("there is no such order")


@tool(facts=looked_up)
def ship(order: int) -> str:
    """Ship an order."""
    raise AssertionError("nobody was asked")


def proposing(name: str) -> ScriptedTurn:
    return ScriptedTurn("I act.", (ScriptedCall(name, {"order": 7}),))


async def test_people_and_the_model_read_that_nothing_was_done(stage: Staged) -> None:
    """Card, thread, history, page and the model say so, with the tool's reason; none says that it failed."""
    on = await stage(Agent("shop", "You sell.", [refund]), policy=POLICY)
    on.model.script(proposing("refund"), "It was refunded before.")
    run_id = await on.go("shop", "refund order 7")
    (call,) = await on.calls(run_id)
    await on.approve(call)
    view = await on.request(call)
    shown = rendered(request_card(view).blocks)
    said = ["🚫 Nothing was done", "Why:", f"| {WHY}"]
    at = shown.index(said[0])
    assert shown[at : at + len(said)] == said
    (body,) = [
        row[0] for row in await on.sql("SELECT body FROM delivery WHERE body ->> 'line' = 'nothing_done'")
    ]
    line = rendered(thread_line(body).blocks)
    assert line == said
    async with on.db.connection() as connection:
        lines = await views.found_requests(connection, TEAM, RequestKind.DECIDED)
        events = await views.request_events(connection, view.id)
    listed = words(history_list(lines).blocks)
    assert "Approved, nothing was done" in listed
    assert "did nothing" in [each.words for each in history.steps(events, {})]
    assert on.model.requests[1]["messages"][-1]["content"] == f"Nothing was done: {WHY}"
    for each in ("\n".join(shown), *line, listed, words(run_root(await on.run(run_id)).blocks)):
        assert "ailed" not in each


async def test_so_does_one_whose_facts_say_it(stage: Staged) -> None:
    """Before anybody is asked the model reads the same words."""
    on = await stage(Agent("shop", "You sell.", [ship]), policy=POLICY)
    on.model.script(proposing("ship"), "There is no order 7.")
    await on.go("shop", "ship order 7")
    said = on.model.requests[1]["messages"][-1]["content"]
    assert said == "Nothing was done: there is no such order"


async def test_what_raised_has_failed(stage: Staged) -> None:
    """Any other exception leaves open what was done, also one whose text begins alike."""

    @tool
    def break_down(order: int) -> str:
        """Break."""
        raise ValueError("Nothing was done: so it says")

    on = await stage(Agent("shop", "You sell.", [break_down]), policy=POLICY)
    on.model.script(proposing("break_down"), "It failed.")
    (call,) = await on.calls(await on.go("shop", "break"))
    await on.approve(call)
    assert "❌ Failed" in words(request_card(await on.request(call)).blocks)
    assert on.model.requests[1]["messages"][-1]["content"].startswith("Error: ValueError: Nothing was done")


async def test_what_a_program_or_a_tool_writes_is_no_such_fact(stage: Staged, key: Principal) -> None:
    """A program's error and a tool's result mean what they are, even if they begin as our own sentences do."""

    @tool(external=True)
    def post(order: int) -> None:
        """Post it."""

    @tool
    def quote(order: int) -> str:
        """Quote it."""
        return "it ran, but its result cannot be stored: so it says"

    on = await stage(Agent("shop", "You sell.", [post, quote]), policy=POLICY)
    on.model.script(proposing("post"), "It failed.")
    run_id = await on.go("shop", "post")
    (call,) = await on.calls(run_id)
    await on.approve(call)
    claimed = await external_calls.claim(on.services, call.id, key, digest=None, lease_seconds=60)
    error = Outcome(ExecutionStatus.FAILED, "Nothing was done: so it says")
    await external_calls.report(on.services, call.id, key, claimed.token, error)
    await on.play()
    assert "❌ Failed" in words(request_card(await on.request(call)).blocks)
    assert (await on.run(run_id)).ending is CallOutcome.FAILED
    assert on.model.requests[1]["messages"][-1]["content"] == "Error: Nothing was done: so it says"
    on.model.script(proposing("quote"), "That is all.")
    (call,) = await on.calls(await on.go("shop", "quote"))
    await on.approve(call)
    assert "cannot be used" not in words(request_card(await on.request(call)).blocks)


async def test_it_is_known_after_the_texts_are_erased(stage: Staged, database_url: str) -> None:
    """Retention takes the reason, and neither the run's nor the request's outcome."""
    on = await stage(Agent("shop", "You sell.", [refund]), policy=POLICY)
    on.model.script(proposing("refund"), "It was refunded before.")
    run_id = await on.go("shop", "refund order 7")
    (call,) = await on.calls(run_id)
    await on.approve(call)
    async with Database(database_url, role=None) as owner:
        before = await retention.cutoff(owner, timedelta(0))
        assert [batch.runs async for batch in retention.erase(owner, before, by="cli:test")] == [1]
    assert (await on.run(run_id)).ending is CallOutcome.NOTHING_DONE
    shown = words(request_card(await on.request(call)).blocks)
    assert "🚫 Nothing was done" in shown
    assert WHY not in shown
    async with on.db.connection() as connection:
        lines = await views.found_requests(connection, TEAM, RequestKind.DECIDED)
    assert "Approved, nothing was done" in words(history_list(lines).blocks)


RESULTS: list[Any] = []
DONE: list[str] = []


def charge(order: int) -> Any:
    """Charge somebody."""
    DONE.append("charged")
    return RESULTS[-1]


@function_agent(tools=[charge])
async def biller(task: str) -> Any:
    await step(charge, order=7)
    return RESULTS[0]


@pytest.fixture(autouse=True)
def results() -> None:
    RESULTS.clear()
    DONE.clear()


async def test_an_agents_result_without_a_json_form_can_be_corrected(stage: Staged) -> None:
    """The run's message says what it returned and what to do; the corrected function then ends without a repeated
    step.
    """
    RESULTS.extend([object(), 5])
    on = await stage(biller, policy=POLICY)
    run_id = await on.go("biller", "order 7")
    run = await on.run(run_id)
    assert run.status is RunStatus.FAILED
    message = words(run_root(run).blocks)
    assert "❌ Failed" in message
    assert (
        "its result cannot be stored: it returned object, which is not JSON: return a dict, list, str"
        in message
    )
    assert "correct what the function returns, then resume the run; no step is repeated" in message
    RESULTS[0] = {"charged": 5}
    await resumption.resume(on.db, run_id, Standing(ASKER))
    await on.play()
    run = await on.run(run_id)
    assert (run.status, run.answer, DONE) == (RunStatus.COMPLETED, '{"charged":5}', ["charged"])


async def test_a_steps_result_without_a_json_form_is_on_its_card(stage: Staged) -> None:
    """Card and run's message say that it ran, what it returned, and that resuming does not repeat it."""

    @tool(name="pay")
    def pay(order: int) -> Any:
        """Pay."""
        DONE.append("paid")
        return object()

    @function_agent(tools=[pay])
    async def payer(task: str) -> str:
        return str(await step(pay, order=7))

    on = await stage(payer, policy=POLICY)
    run_id = await on.go("payer", "order 7")
    (call,) = await on.calls(run_id)
    await on.approve(call)
    for shown in (request_card(await on.request(call)), run_root(await on.run(run_id))):
        said = words(shown.blocks)
        assert "it ran, but its result cannot be stored: ValueError: it returned object" in said
        assert "It is done, and resuming the run does not repeat it" in said
    assert DONE == ["paid"]

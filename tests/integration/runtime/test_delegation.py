"""Agents that hand tasks down: a call of theirs is a run of another agent, and its end is the call's answer."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from agent.domain.errors import GrantRefused
from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.domain.rules import Defaults, GrantLimits, Rule
from agent.domain.run import AnswerKind, CallState, RunStatus
from agent.runtime.agents import Agent
from agent.store.outbox import Destination
from agent.usecases import grants, runs
from agent.usecases.grants import GrantProposal
from agent.usecases.runs import resumption
from signoff import ask, function_agent, step, tool
from signoff.errors import CollaborationError, Conflict
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from slackbot.cards import request_card, run_root
from tests.integration.invariants import broken
from tests.integration.runtime.conftest import ASKER, CHANNEL, REVIEWER, TEAM

done: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done():
    done.clear()


@tool
def pay_back(order: int) -> str:
    """Pay an order back."""
    done.append(f"order {order}")
    return f"paid back order {order}"


@tool(background=True)
def pay_later(order: int) -> str:
    """Pay an order back, some day."""
    done.append(f"order {order}")
    return f"paid back order {order}"


refunds = Agent("refunds", "You refund.", [pay_back, pay_later])
orders = Agent("orders", "You handle orders.", [refunds.as_tool()])
TELL = Policy(defaults=Defaults(on_reject="tell_model"))
STOP = Policy(defaults=Defaults(on_reject="stop"))


def calls(*proposed: tuple[str, dict]) -> ScriptedTurn:
    return ScriptedTurn(calls=tuple(ScriptedCall(name, arguments) for name, arguments in proposed))


async def below(on, run_id: UUID) -> list[UUID]:
    rows = await on.sql("SELECT id FROM agent_run WHERE parent_run_id = :id ORDER BY id", id=run_id)
    return [row[0] for row in rows]


async def handed_down(on, *, tool: str = "pay_back") -> tuple[UUID, UUID]:
    """A run of orders, whose call waits for a run of refunds, whose call waits for people."""
    on.model.script(calls(("refunds", {"task": "refund order 7"})), calls((tool, {"order": 7})))
    parent = await on.go("orders", "the customer wants order 7 refunded")
    (child,) = await below(on, parent)
    return parent, child


async def test_its_answer_is_the_result_of_the_call(stage):
    """The question names the whole chain and the human at the top; the child's answer reaches the parent's model."""
    on = await stage(orders, policy=TELL)
    parent, child = await handed_down(on)
    (delegated,) = await on.calls(parent)
    assert delegated.state is CallState.DELEGATED
    assert (await on.run(child)).task == "refund order 7"
    (asked,) = await on.calls(child)
    request = await on.request(asked)
    assert (request.requester, request.agent, request.chain) == (ASKER, "refunds", "orders › refunds")
    assert "orders › refunds" in str(request_card(request).blocks)
    assert "orders › refunds" in str(run_root(await on.run(child)).blocks)

    on.model.script("Order 7 is paid back.", "All done.")
    await on.approve(asked)
    (delegated,) = await on.calls(parent)
    assert (delegated.answer.kind, delegated.answer.text) == (AnswerKind.RESULT, "Order 7 is paid back.")
    assert "Order 7 is paid back." in on.model.requests[-1]["messages"][-1]["content"]
    assert [(await on.run(each)).status for each in (parent, child)] == [RunStatus.COMPLETED] * 2
    assert (await on.run(parent)).answer == "All done."
    assert done == ["order 7"]
    assert await broken(on.db) == []


async def test_several_at_once_answer_as_they_end(stage):
    """Two tasks delegated in one turn are two runs; the parent continues when the last one has ended."""
    on = await stage(orders, policy=TELL)
    on.model.script(
        calls(("refunds", {"task": "one"}), ("refunds", {"task": "two"})),
        "It is done.",
        "It is done.",
        "Both.",
    )
    parent = await on.go("orders", "do both")
    assert len(await below(on, parent)) == 2
    assert (await on.run(parent)).answer == "Both."
    assert [call.answer.text for call in await on.calls(parent)] == ["It is done."] * 2
    assert await broken(on.db) == []


async def test_what_goes_on_in_the_background_is_waited_for(stage):
    """The parent receives the child's last answer, not the one that says that a refund still waits."""
    on = await stage(orders, policy=TELL)
    on.model.script(
        calls(("refunds", {"task": "refund order 7"})),
        calls(("pay_later", {"order": 7})),
        "It waits for review.",
    )
    parent = await on.go("orders", "order 7")
    (child,) = await below(on, parent)
    assert (await on.run(child)).answer == "It waits for review."
    (delegated,) = await on.calls(parent)
    assert delegated.answer is None
    on.model.script("It was refunded.", "Refunded.")
    await on.approve((await on.calls(child))[0])
    (delegated,) = await on.calls(parent)
    assert delegated.answer.text == "It was refunded."
    assert (await on.run(parent)).answer == "Refunded."


async def test_a_no_that_stops_ends_the_whole_chain(stage):
    """With `on_reject = "stop"` the child and its parent end denied, a sibling is stopped, nothing is executed."""
    on = await stage(orders, policy=STOP)
    on.model.script(
        calls(("refunds", {"task": "one"}), ("refunds", {"task": "two"})),
        calls(("pay_back", {"order": 7})),
        calls(("pay_back", {"order": 8})),
    )
    parent = await on.go("orders", "both")
    first, second = await below(on, parent)
    await on.reject((await on.calls(first))[0], "never")
    for run_id in (first, parent):
        run = await on.run(run_id)
        assert (run.status, run.cause) == (RunStatus.DENIED, "rejected")
    assert (await on.run(second)).status is RunStatus.CANCELLED
    (asked,) = await on.calls(second)
    assert (await on.request(asked)).status.value == "cancelled"
    assert {call.answer.kind for call in await on.calls(parent)} == {AnswerKind.STOPPED}
    assert done == []
    assert await broken(on.db) == []


async def test_a_no_that_is_told_reaches_the_parent_in_words(stage):
    """With `on_reject = "tell_model"` the child reports the refusal, and the parent continues with that."""
    on = await stage(orders, policy=TELL)
    parent, child = await handed_down(on)
    on.model.script("They said no: too much.", "No refund, then.")
    await on.reject((await on.calls(child))[0], "too much")
    assert (await on.run(parent)).answer == "No refund, then."
    assert "They said no" in on.model.requests[-1]["messages"][-1]["content"]


async def test_a_child_that_fails_is_an_error_to_its_parent(stage):
    """The parent's model reads that the child agent failed, and why."""
    limited = Agent("refunds", "You refund.", [pay_back], max_tokens=1)
    on = await stage(Agent("orders", "You handle orders.", [limited.as_tool()]), policy=TELL)
    parent, child = await handed_down(on)
    on.model.script("It could not be done.")
    await on.approve((await on.calls(child))[0])
    assert (await on.run(child)).status is RunStatus.FAILED
    (delegated,) = await on.calls(parent)
    assert delegated.answer.kind is AnswerKind.ERROR
    assert "the agent refunds failed: token limit" in delegated.answer.text
    assert (await on.run(parent)).answer == "It could not be done."
    with pytest.raises(Conflict, match="the parent run already has this failure"):
        await resumption.resume(on.db, child, Standing(ASKER))


async def test_cancelling_the_parent_stops_the_family(stage):
    """The child's request is withdrawn, both runs are cancelled, and the parent's call has its answer."""
    on = await stage(orders, policy=TELL)
    parent, child = await handed_down(on)
    assert await runs.cancel(on.db, parent, Standing(ASKER))
    await on.play()
    assert [(await on.run(each)).status for each in (parent, child)] == [RunStatus.CANCELLED] * 2
    assert (await on.request((await on.calls(child))[0])).status.value == "cancelled"
    assert len(on.model.requests) == 2
    assert await broken(on.db) == []


async def test_cancelling_the_child_lets_the_parent_go_on(stage):
    """Stopping only the child run answers the parent's call: the parent reads that the child was stopped."""
    on = await stage(orders, policy=TELL)
    parent, child = await handed_down(on)
    on.model.script("Then not.")
    assert await runs.cancel(on.db, child, Standing(ASKER))
    await on.play()
    (delegated,) = await on.calls(parent)
    assert delegated.answer.text == "withdrawn: the run of the agent refunds was cancelled"
    assert (await on.run(parent)).answer == "Then not."
    assert await broken(on.db) == []


async def test_the_sweep_ends_what_nobody_waits_for_any_more(stage):
    """A worker that died between the parent's end and the child's leaves an orphan, which any sweep ends."""
    on = await stage(orders, policy=TELL)
    parent, child = await handed_down(on)
    await on.sql(
        "UPDATE agent_run SET status = 'failed', cause = 'x', heard = inputs WHERE id = :id", id=parent
    )
    assert await runs.end_orphans(on.db) == 1
    await on.play()
    assert (await on.run(child)).status is RunStatus.CANCELLED
    assert await runs.end_orphans(on.db) == 0
    assert await broken(on.db) == []


async def test_handing_down_itself_can_be_asked_about(stage):
    """A checkpoint on the agent's name holds the task back; the approved task begins one run."""
    rule = Rule(checkpoint_id="hand", action_pattern="refunds", risk="low", on_reject="tell_model")
    on = await stage(orders, policy=Policy(rules=(rule,), defaults=Defaults(unmatched="allow")))
    on.model.script(calls(("refunds", {"task": "refund order 7"})))
    parent = await on.go("orders", "order 7")
    assert await below(on, parent) == []
    on.model.script("Refunded.", "Fine.")
    (call,) = await on.calls(parent)
    await on.approve(call)
    assert len(await below(on, parent)) == 1
    assert (await on.request(call)).execution.status.value == "succeeded"
    assert (await on.run(parent)).answer == "Fine."
    assert await broken(on.db) == []


async def test_a_delegated_task_cannot_be_allowed_in_advance(stage):
    """No grant covers it, so its card offers none, and nobody can propose one, whatever its checkpoint allows."""
    rule = Rule(checkpoint_id="hand", action_pattern="refunds", on_reject="tell_model", allow_grants=True)
    on = await stage(orders, policy=Policy(rules=(rule,), grants=GrantLimits(timedelta(days=1), 10)))
    on.model.script(calls(("refunds", {"task": "refund order 7"})))
    (call,) = await on.calls(await on.go("orders", "order 7"))
    assert "signoff:allow_similar" not in str(request_card(await on.request(call)).blocks)
    await on.approve(call)
    proposal = GrantProposal(
        call.request_id, REVIEWER, {}, {}, anyone=False, lasts=timedelta(hours=1), max_uses=2
    )
    with pytest.raises(GrantRefused, match="its checkpoint allows no grants"):
        await grants.propose(
            on.db,
            proposal,
            GrantLimits(timedelta(days=1), 10),
            {},
            Destination(TEAM, CHANNEL),
            policy_epoch=0,
        )


@function_agent(tools=[pay_back])
async def careful(task: str) -> str:
    (await ask(f"Really {task}?")).require()
    return await step(pay_back, order=7)


@function_agent(tools=[careful])
async def boss(task: str) -> str:
    try:
        return f"below said: {await step(careful, task=task)}"
    except CollaborationError as no:
        return f"below was stopped: {no.cause}"


@pytest.mark.parametrize(
    ("approved", "answer"), [(True, "below said: paid back order 7"), (False, "below was stopped: rejected")]
)
async def test_functions_hand_down_too(stage, approved, answer):
    """A step can be another agent: it returns that agent's answer, or raises what stopped it."""
    on = await stage(boss, policy=Policy(defaults=Defaults(unmatched="allow")))
    parent = await on.go("boss", "pay")
    (child,) = await below(on, parent)
    (asked,) = [call for call in await on.calls(child) if call.request_id]
    await (on.approve(asked) if approved else on.reject(asked))
    assert (await on.run(parent)).answer == answer
    assert await broken(on.db) == []


def test_an_agent_is_handed_over_as_a_tool():
    """An agent listed among the tools of an agent with a model is an error that says what to write."""
    with pytest.raises(TypeError, match=r"refunds is an agent; pass it as refunds\.as_tool\(\)"):
        Agent("orders", "You handle orders.", [refunds])  # type: ignore[list-item]


def side_by_side(request: dict) -> ScriptedTurn | str:
    """Two models are asked at the same time, in whatever order."""
    below = "You refund." in str(request["messages"][0])
    return calls(("pay_back", {"order": 7})) if below else "It is under way."


async def test_a_model_goes_on_while_another_agent_works_in_the_background(stage):
    """With `background=True` its turn comes at once; the answer is a note that wakes it, also after its own answer."""
    away = Agent("orders", "You handle orders.", [refunds.as_tool(background=True)])
    on = await stage(away, policy=TELL)
    on.model.script(calls(("refunds", {"task": "refund order 7"})), side_by_side, side_by_side)
    parent = await on.go("orders", "refund order 7")
    (child,) = await below(on, parent)
    (delegated,) = await on.calls(parent)
    assert (delegated.state, delegated.blocking) == (CallState.DELEGATED, False)
    run = await on.run(parent)
    assert (run.answer, run.asked) == ("It is under way.", 1)

    on.model.script("Order 7 is paid back.", "All done.")
    (asked,) = await on.calls(child)
    await on.approve(asked)
    run = await on.run(parent)
    assert (run.status, run.answer, done) == (RunStatus.COMPLETED, "All done.", ["order 7"])
    notes = [said.text for said in await on.messages(parent) if said.role == "note"]
    assert len(notes) == 1
    assert "Order 7 is paid back." in (notes[0] or "")


async def test_work_in_the_background_ends_with_its_parent(stage):
    """Who cancels the run above cancels it, also when its model has answered in the meantime."""
    away = Agent("orders", "You handle orders.", [refunds.as_tool(background=True)])
    on = await stage(away, policy=TELL)
    on.model.script(calls(("refunds", {"task": "refund order 7"})), side_by_side, side_by_side)
    parent = await on.go("orders", "refund order 7")
    (child,) = await below(on, parent)
    assert await runs.cancel(on.db, parent, Standing(ASKER))
    assert (await on.run(child)).status is RunStatus.CANCELLED

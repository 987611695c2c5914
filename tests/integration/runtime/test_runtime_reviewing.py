"""What reviewers do, as the agent and its tool notice it: edits that run, words that arrive, a no that stands."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.domain.request import API, Ballot, Verdict
from agent.domain.request_view import RequestView
from agent.domain.rules import Defaults, Rule
from agent.domain.run import AnswerKind, CallView, RunStatus
from agent.runtime.agents import Agent
from agent.runtime.calls import advance_call
from agent.runtime.judging.edits import judge_edit
from agent.runtime.tool import NotDone, Tool, tool
from agent.usecases import requests
from agent.usecases.requests import Edit, EditAttempt
from signoff.errors import CollaborationError, MalformedArguments
from signoff.values import Person
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from tests.integration import alone
from tests.integration.runtime.conftest import REVIEWER, Stage

STANDING = Standing(REVIEWER, frozenset({"channel"}))
PRICES = {1: 100, 2: 90, 3: 5000, 4: 100}


class World:
    """What the tool did, and whether prices can be looked up."""

    def __init__(self) -> None:
        self.paid: list[tuple[int, float]] = []
        self.shop_is_open = True


@pytest.fixture
def world() -> World:
    return World()


def paying(world: World, *, background: bool = False) -> Tool:
    def look(order: int) -> dict[str, Any]:
        if not world.shop_is_open:
            raise RuntimeError("the shop is closed")
        if order not in PRICES:
            raise NotDone(f"there is no order {order}")
        return {"price": PRICES[order]}

    @tool(facts=look, background=background, risk="low")
    def pay(order: int, amount: float = 1) -> str:
        """Pay for an order."""
        world.paid.append((order, amount))
        return f"paid {amount} for {order}"

    return pay


def policy(**terms: Any) -> Policy:
    more = {
        "action_pattern": "pay",
        "on_reject": "tell_model",
        "allow_edit": True,
        "editor_may_approve": True,
    }
    dear = more | {"checkpoint_id": "dear", "when": "facts.price > 1000", "risk": "critical"}
    return Policy((Rule(**dear), Rule(checkpoint_id="pay", **(more | terms))))


def payer(*tools: Tool) -> Agent:
    return Agent("payer", "You pay.", tools=tools)


def paid(order: int, amount: float = 1) -> ScriptedTurn:
    return ScriptedTurn("I pay.", (ScriptedCall("pay", {"order": order, "amount": amount}),))


async def asked(on: Stage) -> tuple[CallView, RequestView]:
    """The latest call of a new run, which waits for people."""
    run_id = await on.go("payer", "pay order 1")
    call = (await on.calls(run_id))[-1]
    return call, await on.request(call)


async def judged(on: Stage, view: RequestView, arguments: dict[str, Any]) -> Edit:
    attempt = EditAttempt(view.id, view.revision, STANDING, "test")
    return await judge_edit(on.services, view, arguments, attempt)


async def vote(
    on: Stage, view: RequestView, revision: int, verdict: Verdict, reason: str | None = None
) -> None:
    ballot = Ballot(view.id, revision, verdict, STANDING, {REVIEWER: STANDING}, "test", reason)
    await alone.vote(on.db, ballot)
    await on.play()


@pytest.mark.parametrize("background", [False, True])
async def test_the_tool_gets_the_edited_arguments_and_the_model_is_told(stage, world, background) -> None:
    """Facts, description and defaults are those of the edited call; the outcome says what a reviewer changed."""
    on = await stage(payer(paying(world, background=background)), policy=policy())
    on.model.script(paid(1, 7.5), *(["It waits."] if background else []), "Paid.")
    call, view = await asked(on)
    revised = await judged(on, view, {"order": 2})
    assert revised.action.arguments == {"order": 2, "amount": 1}
    assert (revised.facts, revised.rule is not None) == ({"price": 90}, True)
    assert (await requests.edit(on.db, revised)).revision == 2
    assert (await on.request(call)).description == "pay · amount: 1, order: 2"
    await vote(on, view, 2, Verdict.APPROVE)
    assert world.paid == [(2, 1)]
    heard = on.model.requests[-1]["messages"][-1]["content"]
    changed = (
        "A reviewer changed the arguments before approving: $.amount from 7.5 to 1; $.order from 1 to 2."
    )
    assert changed in heard
    assert "paid 1" in heard


@pytest.mark.parametrize("background", [False, True])
async def test_notes_reach_the_model_and_the_runs_thread(stage, world, background) -> None:
    """Each approval's note is in the run's thread at once, and the model reads all of them with the result."""
    on = await stage(payer(paying(world, background=background)), policy=policy(approvals_required=2))
    on.model.script(paid(1), *(["It waits."] if background else []), "Paid.")
    _, view = await asked(on)
    second = Standing(Person(REVIEWER.team_id, "U0SECOND"), STANDING.roles)
    for voter, note in ((STANDING, "once only"), (second, "tell the customer")):
        standings = {each.person: each for each in (STANDING, second)}
        ballot = Ballot(view.id, 1, Verdict.APPROVE, voter, standings, "test", note)
        await alone.vote(on.db, ballot)
    await on.play()
    heard = on.model.requests[-1]["messages"][-1]["content"]
    assert "paid 1" in heard
    for note in ("once only", "tell the customer"):
        mark = "> " if background else ""
        assert f"{mark}Note given by a reviewer with the approval:\n{mark}> {note}" in heard
    lines = "SELECT body ->> 'line', body ->> 'user', body ->> 'reason' FROM delivery WHERE kind = 'run_line'"
    notes = [tuple(each) for each in await on.sql(f"{lines} AND body ->> 'reason' <> '' ORDER BY id")]
    assert notes == [
        ("voted", REVIEWER.user_id, "once only"),
        ("decided", "U0SECOND", "tell the customer"),
    ]


@pytest.mark.parametrize(("on_reject", "lines"), [("tell_model", ["decided"]), ("stop", ["denied"])])
async def test_a_no_with_a_reason_is_told_once_in_the_runs_thread(stage, world, on_reject, lines) -> None:
    """The requester reads the reason there, whether the run continues or ends with it."""
    on = await stage(payer(paying(world)), policy=policy(on_reject=on_reject))
    on.model.script(paid(1), "As you wish.")
    _, view = await asked(on)
    with suppress(CollaborationError):
        await vote(on, view, 1, Verdict.REJECT, "too dear")
    written = await on.sql(
        "SELECT body ->> 'line' FROM delivery WHERE body ->> 'reason' = 'too dear' AND run_id IS NOT NULL"
    )
    assert [line for (line,) in written] == lines


async def test_without_an_edit_the_model_is_told_of_none(stage, world) -> None:
    """An approval as proposed says nothing of changes."""
    on = await stage(payer(paying(world)), policy=policy())
    on.model.script(paid(1), "Paid.")
    _, view = await asked(on)
    await vote(on, view, 1, Verdict.APPROVE)
    assert on.model.requests[-1]["messages"][-1]["content"].startswith("paid")


async def test_an_edit_is_read_and_judged_as_a_call_is(stage, world) -> None:
    """Arguments the tool does not take, facts that are not there, and policy's no come back each in its own way.

    An edit adds no argument: neither one that the tool has not, nor, to what a program asks, one that it did not name.
    """
    on = await stage(payer(paying(world)), policy=policy())
    on.model.script(paid(1))
    _, view = await asked(on)
    with pytest.raises(MalformedArguments) as malformed:
        await judged(on, view, {"order": "two"})
    assert malformed.value.path == "$.order"
    for source in (view.source, API):
        with pytest.raises(MalformedArguments) as added:
            await judged(on, replace(view, source=source), {"order": 1, "amount": 1, "urgent": True})
        assert added.value.path == "$.urgent"
    with pytest.raises(MalformedArguments, match="there is no order 9"):
        await judged(on, view, {"order": 9})
    dear = await judged(on, view, {"order": 3})
    with pytest.raises(Refused) as stricter:
        await requests.edit(on.db, dear)
    assert stricter.value.code is Refusal.STRICTER_CHECKPOINT
    world.shop_is_open = False
    with pytest.raises(Refused) as unchecked:
        await judged(on, view, {"order": 2})
    assert unchecked.value.code is Refusal.EDIT_UNCHECKED
    elsewhere = await stage(Agent("payer", "You pay no more."))
    with pytest.raises(NotFound):
        await judged(elsewhere, view, {"order": 2})
    assert world.paid == []


async def test_what_was_rejected_is_not_asked_about_again_in_the_same_run(stage, world) -> None:
    """The same action is refused with a pointer to the rejection and its reason; another one is asked about."""
    on = await stage(payer(paying(world)), policy=policy())
    on.model.script(paid(1), paid(1), paid(2), paid(1))
    call, view = await asked(on)
    await vote(on, view, 1, Verdict.REJECT, "wrong customer")
    first, again, other = await on.calls(call.run_id)
    assert again.request_id is None
    assert again.answer is not None
    assert again.answer.kind is AnswerKind.DENIED
    assert str(view.id) in again.answer.text
    assert "wrong customer" in again.answer.text
    assert other.request_id not in (None, first.request_id)
    in_another_run, _ = await asked(on)
    assert in_another_run.request_id is not None
    assert world.paid == []


async def test_an_edited_action_that_was_rejected_stands_for_both(stage, world) -> None:
    """Neither what was proposed nor what a reviewer made of it is asked about again."""
    on = await stage(payer(paying(world)), policy=policy())
    on.model.script(paid(1), paid(1), paid(2), "I give up.")
    call, view = await asked(on)
    await requests.edit(on.db, await judged(on, view, {"order": 2, "amount": 1}))
    await vote(on, view, 2, Verdict.REJECT)
    calls = await on.calls(call.run_id)
    assert [each.request_id is None for each in calls] == [False, True, True]
    assert (await on.run(call.run_id)).status is RunStatus.COMPLETED


async def test_a_changed_call_of_an_ended_run_is_given_up(stage, world, monkeypatch) -> None:
    """Approved, but its facts have changed and nobody listens any more: nothing runs and nobody is asked."""
    on = await stage(payer(paying(world)), policy=policy())
    on.model.script(paid(1))
    call, view = await asked(on)
    ballot = Ballot(view.id, 1, Verdict.APPROVE, STANDING, {REVIEWER: STANDING}, "test")
    await alone.vote(on.db, ballot)
    await on.sql("UPDATE agent_run SET status = 'failed', cause = 'the model is gone'")
    monkeypatch.setitem(PRICES, 1, 101)
    await on.play()
    (ended,) = await on.calls(call.run_id)
    assert ended.request_id == view.id
    assert ended.answer is not None
    assert ended.answer.kind is AnswerKind.WITHDRAWN
    assert "the run has ended" in ended.answer.text
    assert world.paid == []


def preparing(heard: list[tuple[str, int]]) -> Tool:
    """A tool that sets an order aside while people decide, and records its hooks' arguments."""

    @tool(
        risk="low",
        on_pending=lambda order: heard.append(("set aside", order)),
        on_refused=lambda order, cause: heard.append((cause, order)),
    )
    def pay(order: int, amount: float = 1) -> str:
        """Pay for an order."""
        heard.append(("paid", order))
        return "paid"

    return pay


async def to_order(on: Stage, view: RequestView, order: int) -> None:
    await requests.edit(on.db, await judged(on, view, {"order": order}))


async def test_what_was_set_aside_for_the_original_is_taken_back_once(stage) -> None:
    """An edit withdraws the original from the tool, then announces the new arguments; each hook runs once."""
    heard: list[tuple[str, int]] = []
    on = await stage(payer(preparing(heard)), policy=policy())
    on.model.script(paid(1), "I see.")
    call, view = await asked(on)
    await to_order(on, view, 2)
    await on.play()
    assert heard == [("set aside", 1), ("edited", 1), ("set aside", 2)]
    await advance_call(on.services, call.id)  # a hint that comes again finds nothing to do
    await vote(on, view, 2, Verdict.REJECT)
    assert heard[3:] == [("rejected", 2)]


@pytest.mark.parametrize(
    ("verdict", "last"), [(Verdict.APPROVE, ("paid", 2)), (Verdict.REJECT, ("rejected", 2))]
)
async def test_a_decision_right_after_the_edit_does_not_forget_the_original(stage, verdict, last) -> None:
    """Edit and decision are both stored before any worker looks: the original is withdrawn first."""
    heard: list[tuple[str, int]] = []
    on = await stage(payer(preparing(heard)), policy=policy())
    on.model.script(paid(1), "I see.")
    _, view = await asked(on)
    await to_order(on, view, 2)
    await vote(on, view, 2, verdict)
    assert heard == [("set aside", 1), ("edited", 1), last]


async def test_what_a_dead_worker_may_have_set_aside_is_taken_back(stage) -> None:
    """What the hook is about to prepare is written down first, so that an edit finds it although the worker died."""
    heard: list[tuple[str, int]] = []
    on = await stage(payer(preparing(heard)), policy=policy())
    on.model.script(paid(1), "I see.")
    call, view = await asked(on)
    heard.clear()
    await on.sql("UPDATE tool_call SET announced_at = NULL")  # as a worker leaves it that dies in the hook
    await to_order(on, view, 2)
    await on.play()
    assert heard == [("edited", 1), ("set aside", 2)]
    assert (await on.request(call)).revision == 2


async def test_an_edit_while_the_hook_runs_is_noticed(stage) -> None:
    """The original's hook ends after the edit, in another worker: the original is withdrawn nevertheless."""
    heard: list[tuple[str, int]] = []
    begun, edited = threading.Event(), threading.Event()

    async def set_aside(order: int) -> None:
        if order == 1:
            begun.set()
            await asyncio.to_thread(edited.wait, 10)
        heard.append(("set aside", order))

    @tool(risk="low", on_pending=set_aside, on_refused=lambda order, cause: heard.append((cause, order)))
    def pay(order: int, amount: float = 1) -> str:
        return "paid"

    on = await stage(payer(pay), policy=policy())
    on.model.script(paid(1), "I see.")
    run_id = await on.start("payer", "pay order 1")
    playing = asyncio.create_task(on.play())
    assert await asyncio.to_thread(begun.wait, 10)
    (call,) = await on.calls(run_id)
    view = await on.request(call)
    await to_order(on, view, 2)
    await advance_call(on.other_worker(), call.id)  # takes back what is not there yet
    assert heard == [("edited", 1), ("set aside", 2)]
    edited.set()
    await playing
    assert heard[2:] == [("set aside", 1), ("edited", 1)]


async def test_a_question_taken_back_is_asked_anew_also_where_policy_would_let_it_run(
    stage, world: World
) -> None:
    """The same call gets another request under the present code and policy, and runs once it is approved."""
    on = await stage(payer(paying(world)), policy=policy())
    on.model.script(paid(1), "Paid.")
    call, view = await asked(on)
    assert await requests.withdraw_and_rejudge(on.db, view.id, "a new version", principal="cli:test")
    assert not await requests.withdraw_and_rejudge(on.db, view.id, "a new version", principal="cli:test")
    on.go_by(Policy(defaults=Defaults(unmatched="allow")))
    await on.play()
    (again,) = await on.calls(call.run_id)
    assert again.id == call.id
    assert again.request_id not in (None, view.id)
    assert world.paid == []
    await on.approve(again)
    assert (world.paid, (await on.run(call.run_id)).answer) == ([(1, 1)], "Paid.")

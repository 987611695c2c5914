"""How a run reads that has completed, and of whose actions none was done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

import pytest

from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.domain.request import Verdict
from agent.domain.rules import Defaults, Rule
from agent.domain.run import CallOutcome, CallView, RunStatus
from agent.runtime.agents import Agent
from agent.usecases import requests, runs
from signoff import NotDone, tool
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from slackbot.cards import run_list, run_root
from slackbot.web.inbox import words as page
from tests.integration.runtime.conftest import ASKER, Stage
from tests.unit.cards.conftest import words

RULES = tuple(
    Rule(checkpoint_id=tool, action_pattern=tool, on_reject="tell_model", when=when)
    for tool, when in (("refund", None), ("ship", None), ("shop", None), ("voucher", "args.order > 100"))
)
POLICY = Policy(rules=RULES, defaults=Defaults(unmatched="deny"))
Act = Callable[[Stage, CallView], Awaitable[object]]


@tool(read_only=True)
def look_up(order: int) -> str:
    """Look an order up."""
    return f"order {order} is paid"


@tool
def refund(order: int) -> str:
    """Refund an order."""
    if order == 404:
        raise NotDone("there is no such order")
    if order == 500:
        raise ValueError("out of order")
    return f"refunded {order}"


@tool(background=True)
def voucher(order: int) -> str:
    """Send a voucher."""
    return f"sent for {order}"


@tool(external=True)
def ship(order: int) -> str:
    """Ship an order."""
    return f"shipped {order}"


@tool
def close_shop(order: int) -> str:
    """Close it."""
    return "closed"


shop = Agent("shop", "You sell.", [look_up, refund, voucher, ship, close_shop])
desk = Agent("desk", "You hand down.", [shop.as_tool()])


async def approve(on: Stage, call: CallView) -> None:
    await on.approve(call)


async def reject(on: Stage, call: CallView) -> None:
    await on.reject(call)


async def withdraw(on: Stage, call: CallView) -> None:
    assert call.request_id is not None
    await requests.withdraw(on.db, call.request_id, None, "no longer needed")
    await on.play()


async def expire(on: Stage, call: CallView) -> None:
    await on.sql(
        "UPDATE approval_request SET expires_at = clock_timestamp() WHERE id = :id", id=call.request_id
    )
    await requests.expire_due(on.db)
    await on.play()


async def lapse(on: Stage, call: CallView) -> None:
    await on.vote(call, Verdict.APPROVE)
    await on.sql("UPDATE tool_call SET lapse_at = clock_timestamp()")
    await requests.lapse_due(on.db)
    await on.play()


async def shown(on: Stage, run_id: UUID) -> tuple[str, str, str]:
    """The run's message, its line in a list, and the page's badge."""
    run = await on.run(run_id)
    assert run.status is run.shown is RunStatus.COMPLETED
    line = words(run_list([run]).blocks)
    return words(run_root(run).blocks[0]["elements"][:1]), line, page.state_words(run.standing)


async def completed(on: Stage, proposed: Sequence[tuple[str, int]], *acts: Act) -> UUID:
    calls = tuple(ScriptedCall(name, {"order": order}) for name, order in proposed)
    on.model.script(ScriptedTurn("I act.", calls), *["That is all."] * (len(calls) + 1))
    run_id = await on.go("shop", "help the customer")
    asked = [call for call in await on.calls(run_id) if call.request_id is not None]
    for act, call in zip(acts, asked, strict=True):
        await act(on, call)
    return run_id


@pytest.mark.parametrize(
    ("proposed", "acts", "words_shown"),
    [
        ([("refund", 1)], [reject], "❌ Ended: rejected"),
        ([("refund", 1)], [expire], "⌛ Ended: expired"),
        ([("refund", 1)], [withdraw], "🚫 Ended: withdrawn"),
        ([("ship", 1)], [lapse], "⌛ Ended: lapsed"),
        ([("refund", 500)], [approve], "❌ Ended: failed"),
        ([("refund", 404)], [approve], "❌ Ended: nothing was done"),
        ([("close_shop", 1)], [], "❌ Ended: denied by policy"),
        ([("look_up", 1), ("refund", 1)], [reject], "❌ Ended: rejected"),
        ([("voucher", 101)], [reject], "❌ Ended: rejected"),
        ([("refund", 1), ("refund", 2)], [reject, reject], "❌ Ended: rejected"),
        (
            [("refund", 1), ("refund", 2), ("refund", 3)],
            [reject, expire, withdraw],
            "❌ Ended: nothing was done",
        ),
        ([("refund", 404), ("refund", 1)], [approve, reject], "❌ Ended: nothing was done"),
        ([("refund", 500), ("refund", 1)], [approve, reject], "❌ Ended: failed"),
        ([("refund", 500), ("refund", 404)], [approve, approve], "❌ Ended: failed"),
    ],
)
async def test_a_run_of_whose_actions_none_was_done_says_why(
    stage: Callable[..., Awaitable[Stage]],
    proposed: Sequence[tuple[str, int]],
    acts: Sequence[Act],
    words_shown: str,
) -> None:
    """Message, lists and page say how it ended; none calls it completed. What only reads is no action."""
    on = await stage(shop, policy=POLICY)
    run_id = await completed(on, proposed, *acts)
    said = words_shown.partition(" ")[2]
    root, line, badge = await shown(on, run_id)
    assert root.startswith(words_shown)
    assert words_shown in line
    assert badge == said
    assert page.colour((await on.run(run_id)).standing) != "approved"


@pytest.mark.parametrize(
    ("proposed", "acts"),
    [
        ([("refund", 1)], [approve]),
        ([("refund", 1), ("refund", 2)], [reject, approve]),
        ([("refund", 1), ("voucher", 7)], [reject]),
        ([("look_up", 1)], []),
        ([], []),
    ],
)
async def test_a_run_of_whose_actions_one_was_done_has_completed(
    stage: Callable[..., Awaitable[Stage]], proposed: Sequence[tuple[str, int]], acts: Sequence[Act]
) -> None:
    """So has one without actions; a call that policy allows without asking counts as well."""
    on = await stage(shop, policy=POLICY)
    root, line, badge = await shown(on, await completed(on, proposed, *acts))
    assert root.startswith("✅ Completed")
    assert "✅ Completed" in line
    assert badge == "Completed"


async def test_who_delegated_it_says_so_too(stage: Callable[..., Awaitable[Stage]]) -> None:
    """The run that handed the task down, with an approval, reads as the one whose action was rejected."""
    on = await stage(shop, desk, policy=POLICY)
    on.model.script(
        ScriptedTurn(calls=(ScriptedCall("shop", {"task": "refund order 7"}),)),
        ScriptedTurn(calls=(ScriptedCall("refund", {"order": 7}),)),
        *["It was rejected."] * 3,
    )
    run_id = await on.go("desk", "refund it")
    while waiting := await on.sql("SELECT run_id FROM tool_call WHERE state = 'asked'"):
        calls = await on.calls(waiting[0][0])
        await (on.approve if calls[0].tool == "shop" else on.reject)(calls[0])
    assert (await on.run(run_id)).standing is CallOutcome.REJECTED


async def test_nothing_has_ended_while_a_child_run_is_at_work(
    stage: Callable[..., Awaitable[Stage]],
) -> None:
    """A child that hears of a rejection may act once more, though the run above it has completed long ago."""
    on = await stage(shop, desk, policy=POLICY)
    on.model.script(
        ScriptedTurn(calls=(ScriptedCall("shop", {"task": "send a voucher"}),)),
        ScriptedTurn(calls=(ScriptedCall("voucher", {"order": 101}),)),
        *["That is all."] * 4,
    )
    run_id = await on.go("desk", "a voucher")
    [handed_down] = await on.calls(run_id)
    await on.approve(handed_down)
    [[child]] = await on.sql("SELECT id FROM agent_run WHERE parent_run_id = :id", id=run_id)
    [asked] = await on.calls(child)
    await expire(on, asked)
    assert (await on.run(run_id)).ending is CallOutcome.EXPIRED
    assert asked.request_id is not None
    await requests.ask_again(on.db, asked.request_id, Standing(ASKER))
    await on.play()
    [_, again] = await on.calls(child)
    await on.vote(again, Verdict.REJECT)
    await runs.answer_call(on.db, again.id)
    assert (await on.run(child)).status is RunStatus.WORKING
    assert (await on.run(run_id)).standing is RunStatus.COMPLETED
    await on.play()
    assert (await on.run(run_id)).standing is CallOutcome.REJECTED

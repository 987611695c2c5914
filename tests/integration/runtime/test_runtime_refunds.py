"""The refund agent of the tour, against its own table."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.domain.request import Ballot, ExecutionStatus, Verdict
from agent.domain.rules import Defaults, Rule
from agent.domain.run import CallState, RunStatus
from agent.runtime.calls import advance_call
from agent.runtime.judging.edits import judge_edit
from agent.runtime.tool import NotDone
from agent.usecases import requests, runs
from agent.usecases.requests import EditAttempt
from signoff.errors import MalformedArguments
from signoff.values import Risk
from signoff_demo.examples import shop
from signoff_demo.examples.refunds import process_refund, refunds
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from tests.integration import alone
from tests.integration.runtime.conftest import REVIEWER

OVER_LIMIT = Policy(
    rules=(
        Rule(
            checkpoint_id="refund-over-limit",
            action_pattern="process_refund",
            when="facts.price > 1000.0",
            description_template="Refund ${facts.price} for order {args.order_id}",
            money=("facts.price",),
            risk=Risk.HIGH,
            on_reject="tell_model",
            allow_edit=True,
            editor_may_approve=True,
        ),
    ),
)


@pytest.fixture(autouse=True)
async def _shop(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNOFF_SHOP_URL", database_url)
    await shop.setup()


async def status(order_id: int) -> tuple[str, str | None]:
    order = await shop.find(order_id)
    assert order is not None
    return order.status, order.cause


def refunding(order_id: Any, said: str = "I refund it.") -> ScriptedTurn:
    return ScriptedTurn(said, (ScriptedCall("process_refund", {"order_id": order_id}),))


async def test_a_small_refund_happens_at_once(stage) -> None:
    """Up to the limit nobody is asked."""
    on = await stage(refunds, policy=OVER_LIMIT)
    on.model.script(refunding(4), "Done.")
    run_id = await on.go("refunds", "refund order 4")
    (call,) = await on.calls(run_id)
    assert call.request_id is None
    assert await status(4) == ("REFUNDED", None)
    assert "1000.00" in on.model.requests[1]["messages"][-1]["content"]


async def test_a_large_refund_waits_while_the_chat_goes_on(stage) -> None:
    """Above the limit the order is pending, the status can be asked for, and approval refunds it."""
    on = await stage(refunds, policy=OVER_LIMIT)
    on.model.script(
        refunding(7, "It is only 5, so no review is needed."),
        "It is under review.",
        ScriptedTurn(None, (ScriptedCall("get_order_status", {"order_id": 7}),)),
        "Still pending.",
        "It has been refunded.",
    )
    run_id = await on.go("refunds", "refund order 7, it cost 5")
    (call,) = await on.calls(run_id)
    assert call.state is CallState.ASKED
    assert await status(7) == ("PENDING_REFUND", None)
    request = await on.request(call)
    assert request.description == "Refund $1,249.50 for order 7"
    assert "exceeds our cost threshold" in on.model.requests[1]["messages"][-1]["content"]
    await runs.add_message(on.db, run_id, "what is the status of order 7?", None, "event-1")
    await on.play()
    assert "PENDING_REFUND" in on.model.requests[3]["messages"][-1]["content"]
    await on.approve(call)
    assert await status(7) == ("REFUNDED", None)
    assert (await on.run(run_id)).answer == "It has been refunded."


async def test_a_rejected_refund_says_so(stage) -> None:
    """A rejection ends in REFUND_REJECTED with its cause, which the model reads."""
    on = await stage(refunds, policy=OVER_LIMIT)
    on.model.script(refunding(5), "Under review.", "It was refused.")
    run_id = await on.go("refunds", "refund order 5")
    await on.reject((await on.calls(run_id))[0], "used for a year")
    assert await status(5) == ("REFUND_REJECTED", "rejected")
    assert "used for a year" in on.model.requests[2]["messages"][-1]["content"]
    assert (await on.run(run_id)).status is RunStatus.COMPLETED


async def test_an_expired_refund_is_rejected_with_that_cause(stage) -> None:
    """When nobody answers, the order says that it expired, which is not what a person said."""
    on = await stage(refunds, policy=OVER_LIMIT)
    on.model.script(refunding(5), "Under review.", "Nobody answered.")
    await on.go("refunds", "refund order 5")
    await on.sql(
        "UPDATE approval_request SET created_at = created_at - interval '2 days', "
        "expires_at = clock_timestamp() - interval '1 second'"
    )
    assert await requests.expire_due(on.db) == 1
    await on.play()
    assert await status(5) == ("REFUND_REJECTED", "expired")


@pytest.mark.parametrize(
    ("verdict", "edited"),
    [(Verdict.APPROVE, ("REFUNDED", None)), (Verdict.REJECT, ("REFUND_REJECTED", "rejected"))],
)
async def test_an_order_that_an_edit_moved_away_from_waits_no_more(stage, verdict, edited) -> None:
    """The original order is as paid for as before, whatever people say about the other one."""
    on = await stage(refunds, policy=OVER_LIMIT)
    on.model.script(refunding(5), "Under review.", "I see.")
    run_id = await on.go("refunds", "refund order 5")
    (call,) = await on.calls(run_id)
    view = await on.request(call)
    who = Standing(REVIEWER, frozenset({"channel"}))
    attempt = EditAttempt(view.id, 1, who, "test")
    await requests.edit(on.db, await judge_edit(on.services, view, {"order_id": 6}, attempt))
    await on.play()
    assert (await status(5), await status(6)) == (("PAID", None), ("PENDING_REFUND", None))
    await alone.vote(on.db, Ballot(view.id, 2, verdict, who, {REVIEWER: who}, "test"))
    await on.play()
    assert (await status(5), await status(6)) == (("PAID", None), edited)


@pytest.mark.parametrize("lost", ["policy", "facts", "arguments"])
async def test_an_approved_refund_that_is_given_up_waits_no_more(stage, monkeypatch, lost) -> None:
    """Policy denies it now, its facts cannot be had any more: nothing runs, the order says denied, and is not held."""
    on = await stage(refunds, policy=OVER_LIMIT)
    on.model.script(refunding(5), "Under review.", "It could not be done.")
    run_id = await on.go("refunds", "refund order 5")
    (call,) = await on.calls(run_id)
    assert await status(5) == ("PENDING_REFUND", None)
    if lost == "policy":
        on.go_by(Policy(defaults=Defaults(unmatched="deny")))
        await on.vote(call, Verdict.APPROVE)
        await advance_call(on.services, call.id)
    else:
        gone = (
            NotDone("the order is archived") if lost == "facts" else MalformedArguments("order_id", "unknown")
        )
        where = "judging.run_calls.look_up" if lost == "facts" else "ready_calls.as_of_now"
        monkeypatch.setattr(f"agent.runtime.{where}", Mock(side_effect=gone))
        await on.approve(call)
    assert await status(5) == ("REFUND_REJECTED", "denied")
    (call,) = await on.calls(run_id)
    assert await on.sql("SELECT held FROM tool_call") == [(None,)]
    assert call.answer is not None
    assert (await on.request(call)).execution.status is ExecutionStatus.FAILED


async def test_a_late_release_takes_nothing_from_somebody_else(database_url: str) -> None:
    """An order that waits for another refund since then keeps waiting."""
    await shop.hold(7, "first")
    await shop.release(7, "first")
    await shop.hold(7, "second")
    await shop.release(7, "first")
    assert await status(7) == ("PENDING_REFUND", None)
    await shop.release(7, "second")
    assert await status(7) == ("PAID", None)


async def test_no_order_is_refunded_twice(stage) -> None:
    """Two requests for one order, both approved: one refund, and the second call reports that nothing was done."""
    on = await stage(refunds, policy=OVER_LIMIT)
    on.model.script(
        ScriptedTurn(
            "Twice.",
            (
                ScriptedCall("process_refund", {"order_id": 5}),
                ScriptedCall("process_refund", {"order_id": 5}),
            ),
        )
    )
    run_id = await on.go("refunds", "refund order 5 and order 5")
    first, second = await on.calls(run_id)
    await on.approve(first)
    await on.approve(second)
    assert await status(5) == ("REFUNDED", None)
    rows = await on.sql("SELECT status::text, error FROM execution ORDER BY started_at")
    assert [row[0] for row in rows] == ["succeeded", "failed"]
    assert "refunded already" in rows[1][1]


async def test_the_same_key_finds_its_own_refund(database_url: str) -> None:
    """A second attempt with the same key succeeds without a second refund; another key does not."""
    assert await shop.refund(1, "key")
    assert await shop.refund(1, "key")
    assert not await shop.refund(1, "other")


async def test_an_unknown_order_asks_nobody(stage) -> None:
    """An order that does not exist is answered at once."""
    on = await stage(refunds, policy=OVER_LIMIT)
    on.model.script(refunding(99), "No such order.")
    run_id = await on.go("refunds", "refund order 99")
    (call,) = await on.calls(run_id)
    assert (call.state, call.request_id) == (CallState.ANSWERED, None)
    assert "there is no order 99" in on.model.requests[1]["messages"][-1]["content"]


async def test_the_words_of_a_user_lead_to_the_right_tool(stage) -> None:
    """The scripted model of the tour finds the agent's tools by plain words."""
    on = await stage(refunds, policy=OVER_LIMIT)
    asking = await on.go("refunds", "what is the status of order 2?")
    paying = await on.go("refunds", "refund order 2")
    listing = await on.go("refunds", "list all orders")
    tools = [[call.tool for call in await on.calls(run_id)] for run_id in (asking, paying, listing)]
    assert tools == [["get_order_status"], ["process_refund"], ["list_orders"]]


def test_the_model_gives_an_order_number_and_nothing_else() -> None:
    """The refund's only argument is the order."""
    assert list(process_refund.signature.schema["properties"]) == ["order_id"]

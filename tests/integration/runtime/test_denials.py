"""Checkpoints that deny, and the calls of runs: proposed, approved, granted, or for a program to execute."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.domain.api_keys import Principal
from agent.domain.policy import Policy
from agent.domain.rules import Denial, Rule
from agent.domain.run import AnswerKind, CallState
from agent.runtime import external_calls
from agent.runtime.agents import Agent, Registry
from agent.runtime.tool import Tool, tool
from agent.usecases import requests
from agent.usecases.calls.program_claims import ClaimRefused
from tests.integration.runtime.test_runtime_calls import proposing
from tests.integration.runtime.test_runtime_reviewing import STANDING

WORDS = "The bank does that"
ASKS = Policy((Rule(checkpoint_id="pay", action_pattern="pay", on_reject="tell_model"),))
DENIES = Policy(
    ASKS.rules,
    denials=(Denial(checkpoint_id="never", action_pattern="pay", when="args.amount > 10", because=WORDS),),
)


@pytest.fixture
def paid() -> list[int]:
    return []


@pytest.fixture
def pay(paid: list[int]) -> Tool:
    @tool
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    return pay


def heard(on: Any) -> str:
    """The latest result of a tool that the model read."""
    return next(
        each["content"] for each in reversed(on.model.requests[-1]["messages"]) if each["role"] == "tool"
    )


async def test_the_model_reads_the_operators_words(stage, pay, paid) -> None:
    """A call that a denying checkpoint catches is answered with its reason; the next one is asked as before."""
    on = await stage(Agent("cashier", "Pay.", [pay]), policy=DENIES)
    on.model.script(proposing(("pay", {"amount": 11})), proposing(("pay", {"amount": 10})))
    run_id = await on.go("cashier", "pay")
    denied, asked = await on.calls(run_id)
    assert (denied.answer.kind, denied.request_id, asked.state) == (AnswerKind.DENIED, None, CallState.ASKED)
    assert WORDS in heard(on)
    assert "args.amount" not in heard(on)
    assert paid == []


async def test_what_was_approved_and_is_denied_by_now_does_not_run(stage, pay, paid) -> None:
    """A policy that is applied after the approval and before the claim denies, and the model reads why."""
    on = await stage(Agent("cashier", "Pay.", [pay]), policy=ASKS)
    on.model.script(proposing(("pay", {"amount": 11})), "It is not possible.")
    run_id = await on.go("cashier", "pay")
    [call] = await on.calls(run_id)
    on.go_by(DENIES)
    await on.approve(call)
    assert paid == []
    assert WORDS in heard(on)
    assert (await on.run(run_id)).answer == "It is not possible."


async def test_a_denied_call_ends_if_its_tool_has_become_a_programs(stage, pay, paid) -> None:
    """An approved call that was to run here is given up once, and not tried again for ever."""

    @tool(name="pay", external=True)
    def elsewhere(amount: int) -> str:
        raise AssertionError("the service never calls it")

    on = await stage(Agent("cashier", "Pay.", [pay]), policy=ASKS)
    on.model.script(proposing(("pay", {"amount": 11})), "It is not possible.")
    [call] = await on.calls(await on.go("cashier", "pay"))
    on.go_by(DENIES)
    on.services = replace(on.services, registry=Registry([Agent("cashier", "Pay.", [elsewhere])]))
    await on.approve(call)
    [ended] = await on.calls(call.run_id)
    assert (ended.answer.kind, paid) == (AnswerKind.NOTHING_DONE, [])
    assert WORDS in heard(on)


async def test_a_read_only_call_that_is_given_up_stays_one(stage, paid) -> None:
    """What an attempt that never began may have done is what its tool says: a lookup is no action of the run."""

    @tool(read_only=True)
    def pay(amount: int) -> str:
        """Only looks."""
        paid.append(amount)
        return "looked"

    on = await stage(Agent("cashier", "Pay.", [pay]), policy=ASKS)
    on.model.script(proposing(("pay", {"amount": 11})), "It is not possible.")
    [call] = await on.calls(await on.go("cashier", "pay"))
    on.go_by(DENIES)
    await on.approve(call)
    assert paid == []
    assert await on.sql("SELECT read_only FROM execution") == [(True,)]


async def test_an_approval_for_a_program_stays_while_its_action_is_denied(stage, key: Principal) -> None:
    """The claim of a run's external call is denied; under a policy that allows it the same approval is claimed."""

    @tool(external="shop")
    def pay(amount: int) -> str:
        raise AssertionError("the service never calls it")

    on = await stage(Agent("cashier", "Pay.", [pay]), policy=ASKS)
    on.model.script(proposing(("pay", {"amount": 11})))
    [call] = await on.calls(await on.go("cashier", "pay"))
    await on.approve(call)
    on.go_by(DENIES)
    with pytest.raises(ClaimRefused, match=WORDS) as refused:
        await external_calls.claim(on.services, call.id, key, digest=None, lease_seconds=60)
    assert refused.value.kind == "denied"
    on.go_by(ASKS)
    claimed = await external_calls.claim(on.services, call.id, key, digest=None, lease_seconds=60)
    assert claimed.action.arguments == {"amount": 11}


async def test_a_retry_of_what_is_in_doubt_is_denied_by_now(stage, paid) -> None:
    """Who settles a doubt with Retry starts nothing that policy denies; the model reads why."""

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        raise TimeoutError("the bank did not answer")

    on = await stage(Agent("cashier", "Pay.", [pay]), policy=ASKS)
    on.model.script(proposing(("pay", {"amount": 11})), "It is not possible.")
    run_id = await on.go("cashier", "pay")
    [call] = await on.calls(run_id)
    await on.approve(call)
    [call] = await on.calls(run_id)
    assert (call.state, paid) == (CallState.IN_DOUBT, [11])
    on.go_by(DENIES)
    [(execution,)] = await on.sql("SELECT id FROM execution")
    await requests.settle(on.db, execution, STANDING, "retry")
    await on.play()
    assert paid == [11]
    assert WORDS in heard(on)
    assert (await on.run(run_id)).answer == "It is not possible."

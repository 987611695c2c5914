"""`@tool(retries=…)`: a failure that may pass is tried again later, with the same key, and nothing waits meanwhile."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from agent.domain.limits import Limit
from agent.domain.policy import Policy
from agent.domain.request import ExecutionStatus
from agent.domain.rules import Defaults, Denial, Rule
from agent.domain.run import CallState, RunStatus
from agent.runtime.agents import Agent
from agent.runtime.tool import NotDone, Tool, ToolContext
from agent.usecases import runs
from signoff import function_agent, step, tool
from slackbot.cards import status
from tests.integration.runtime.test_limits import used
from tests.integration.runtime.test_runtime_attempts import proposing

ALLOW = Policy(defaults=Defaults(unmatched="allow"))
ASK = Policy(defaults=Defaults(unmatched="review"))
DENY = Policy(defaults=Defaults(unmatched="deny"))
NEVER = Denial(checkpoint_id="never", action_pattern="pay", because="too late for that")
LARGE = Rule(
    checkpoint_id="large",
    action_pattern="pay",
    when="facts.price > 1000.0",
    approvals_required=2,
    on_reject="tell_model",
)
CHARGES = Rule(checkpoint_id="charges", action_pattern="charge", on_reject="tell_model")
ALL = Rule(checkpoint_id="all", action_pattern="pay", on_reject="tell_model")
UNREPEATED = "Error: this attempt did nothing"
ATTEMPTS = "SELECT status::text FROM execution ORDER BY started_at"


def flaky(failures: int, error: BaseException, **options: Any) -> tuple[Tool[..., Any], list[str]]:
    """A tool that raises so many times before it works, and the idempotency keys that it was called with."""
    keys: list[str] = []

    @tool(idempotent=True, **options)
    def charge(ctx: ToolContext) -> str:
        keys.append(ctx.idempotency_key)
        if len(keys) <= failures:
            raise error
        return "charged"

    return charge, keys


def lost() -> tuple[Tool[..., Any], list[int]]:
    """A tool whose first attempt raises after its effect; then its facts say that nothing is left to do."""
    paid: list[int] = []

    def facts(amount: int) -> dict[str, Any]:
        if paid:
            raise NotDone("it is paid already")
        return {"price": amount}

    @tool(idempotent=True, facts=facts, retries=1, backoff=60)
    def pay(amount: int) -> str:
        paid.append(amount)
        if len(paid) == 1:
            raise ConnectionError("the answer was lost")
        return "paid"

    return pay, paid


async def later(on: Any) -> None:
    """Let what waits for its next attempt be due, and do it."""
    await on.sql("UPDATE tool_call SET retry_at = clock_timestamp() WHERE retry_at IS NOT NULL")
    await on.play()


async def test_a_passing_error_fails_no_run(stage) -> None:
    """Two failures and a success are three attempts with one key; the model reads the result alone."""
    charge, keys = flaky(2, ConnectionError("the bank is away"), retries=5, backoff=60)
    on = await stage(Agent("cashier", "Charge.", [charge]), policy=ALLOW)
    on.model.script(proposing("charge"), "Charged.")
    run_id = await on.go("cashier", "go")
    assert (len(keys), (await on.run(run_id)).status) == (1, RunStatus.WORKING)
    await later(on)
    await later(on)
    assert (len(keys), len(set(keys))) == (3, 1)
    assert [row[0] for row in await on.sql(ATTEMPTS)] == ["failed", "failed", "succeeded"]
    assert on.model.requests[1]["messages"][-1]["content"] == "charged"
    assert (await on.run(run_id)).answer == "Charged."


async def test_the_next_attempt_waits_for_its_time(stage) -> None:
    """Before `backoff` seconds have passed, no look finds the call; each later attempt waits twice as long."""
    charge, keys = flaky(9, ConnectionError("away"), retries=3, backoff=60)
    on = await stage(Agent("cashier", "Charge.", [charge]), policy=ALLOW)
    on.model.script(proposing("charge"), "It failed.")
    await on.go("cashier", "go")
    waits = "SELECT extract(epoch FROM retry_at - clock_timestamp())::int FROM tool_call"
    for attempt, seconds in enumerate((60, 120, 240), start=1):
        await on.play()
        assert len(keys) == attempt
        [(left,)] = await on.sql(waits)
        assert seconds - 30 < left <= seconds
        await later(on)
    assert on.model.requests[1]["messages"][-1]["content"].startswith("Error: ConnectionError: away")


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (NotDone("no such account"), {"retries": 5}),
        (KeyError("card"), {"retries": 5, "retry_on": (ConnectionError,)}),
        (ConnectionError("away"), {}),
    ],
    ids=["nothing was done", "another error", "no retries"],
)
async def test_what_may_not_pass_is_final(stage, error: BaseException, options: dict[str, Any]) -> None:
    """A tool that says that nothing was done, an error not in `retry_on`, and a tool without retries fail at once."""
    charge, keys = flaky(1, error, **options)
    on = await stage(Agent("cashier", "Charge.", [charge]), policy=ALLOW)
    on.model.script(proposing("charge"), "It failed.")
    run_id = await on.go("cashier", "go")
    assert (len(keys), (await on.run(run_id)).answer) == (1, "It failed.")


@pytest.mark.parametrize("read_only", [False, True])
async def test_only_the_first_attempt_knows_that_nothing_was_done(stage, read_only: bool) -> None:
    """After another attempt, which may have had its effect, the call has failed; what only reads never has one."""
    keys: list[str] = []

    @tool(idempotent=not read_only, read_only=read_only, retries=1, backoff=60)
    def charge(ctx: ToolContext) -> str:
        keys.append(ctx.idempotency_key)
        raise NotDone("it is paid") if len(keys) > 1 else ConnectionError("the answer was lost")

    on = await stage(Agent("cashier", "Charge.", [charge]), policy=Policy(rules=(CHARGES,)))
    on.model.script(proposing("charge"), "I see.")
    run_id = await on.go("cashier", "go")
    [call] = await on.calls(run_id)
    await on.approve(call)
    await later(on)
    nothing = "Nothing was done: it is paid"
    said = nothing if read_only else f"{UNREPEATED}: it is paid"
    assert (len(keys), on.model.requests[1]["messages"][-1]["content"]) == (2, said)
    card = str(status.parts(await on.request(call)))
    assert ("Failed" in card, "Nothing was done" in card) == (not read_only, read_only)


async def test_an_approval_covers_the_retries(stage) -> None:
    """People approve once; the card counts the attempts, says why the last one failed, and when the next one begins."""
    charge, keys = flaky(1, ConnectionError("the bank is away"), retries=1, backoff=60)
    on = await stage(Agent("cashier", "Charge.", [charge]), policy=ASK)
    on.model.script(proposing("charge"), "Charged.")
    run_id = await on.go("cashier", "go")
    [call] = await on.calls(run_id)
    await on.approve(call)
    view = await on.request(call)
    assert view.execution.status is ExecutionStatus.FAILED
    card = str(status.parts(view))
    assert "Attempt 1 failed" in card
    assert "the bank is away" in card
    await later(on)
    assert (len(keys), (await on.request(call)).execution.attempt) == (2, 2)
    assert (await on.run(run_id)).answer == "Charged."


@pytest.mark.parametrize(
    ("now", "answer", "attempts"),
    [
        (Policy(rules=(LARGE,)), "paid", 2),
        (DENY, f"{UNREPEATED}: policy denies this now", 1),
        (replace(ALLOW, denials=(NEVER,)), f"{UNREPEATED}: policy denies this now: too late for that", 1),
        (Policy(rules=(ALL,)), f"{UNREPEATED}: this needs approval now", 1),
    ],
    ids=["lets it run", "denies unmatched", "denies", "asks"],
)
async def test_a_retry_without_facts_is_judged_by_those_of_the_first_attempt(
    stage, now: Policy, answer: str, attempts: int
) -> None:
    """Facts that find nothing left to do stop no retry of what ran unasked, but the policy of now may."""
    pay, paid = lost()
    on = await stage(Agent("cashier", "Pay.", [pay]), policy=ALLOW)
    on.model.script(proposing("pay", amount=5), "I see.")
    await on.go("cashier", "go")
    on.go_by(now)
    await later(on)
    assert on.model.requests[1]["messages"][-1]["content"].startswith(answer)
    assert len(paid) == attempts


@pytest.mark.parametrize(
    ("now", "state", "attempts"),
    [
        (Policy(rules=(LARGE, ALL)), CallState.ANSWERED, 2),
        (DENY, CallState.ANSWERED, 1),
        (Policy(rules=(ALL.model_copy(update={"approvals_required": 2}),)), CallState.ASKED, 1),
    ],
    ids=["unchanged", "denies", "stricter"],
)
async def test_an_approved_retry_without_facts_is_judged_by_those_approved(
    stage, now: Policy, state: CallState, attempts: int
) -> None:
    """People are asked again only if policy is stricter now, and what it denies does not run."""
    pay, paid = lost()
    on = await stage(Agent("cashier", "Pay.", [pay]), policy=Policy(rules=(LARGE, ALL)))
    on.model.script(proposing("pay", amount=5), "I see.")
    run_id = await on.go("cashier", "go")
    [call] = await on.calls(run_id)
    await on.approve(call)
    on.go_by(now)
    await later(on)
    [again] = await on.calls(run_id)
    assert (again.state, len(paid)) == (state, attempts)
    assert (again.request_id != call.request_id) == (state is CallState.ASKED)


async def test_a_retry_without_facts_needs_room_in_its_limits(stage) -> None:
    """Its amount is that of the first attempt: a limit added since asks about it, and counts it once approved."""
    pay, paid = lost()
    on = await stage(Agent("cashier", "Pay.", [pay]), policy=ALLOW)
    on.model.script(proposing("pay", amount=5), "Paid.")
    run_id = await on.go("cashier", "go")
    limit = Limit("pays", "pay", "facts.price", "all", timedelta(days=1), Decimal(1))
    on.go_by(Policy(defaults=ALLOW.defaults, limits=(limit,)))
    await later(on)
    [call] = await on.calls(run_id)
    assert (call.state, len(paid)) == (CallState.ASKED, 1)
    assert await used(on) == [("all", Decimal(5), Decimal(0))]
    await on.approve(call)
    assert (len(paid), (await on.run(run_id)).answer) == (2, "Paid.")
    assert await used(on) == [("all", Decimal(5), Decimal(0))]


async def test_nobody_tries_again_for_a_run_that_was_cancelled(stage) -> None:
    """The call of a run that is over ends with its error."""
    charge, keys = flaky(9, ConnectionError("away"), retries=5, backoff=60)
    on = await stage(Agent("cashier", "Charge.", [charge]), policy=ALLOW)
    on.model.script(proposing("charge"))
    await on.go("cashier", "go")
    [(run_id,)] = await on.sql("SELECT id FROM agent_run")
    assert await runs.cancel_by_operator(on.db, run_id, "test", "no longer needed")
    await later(on)
    assert len(keys) == 1


async def test_a_step_is_tried_again(stage) -> None:
    """A function agent's step continues where its tool continued; the function sees one result."""
    charge, keys = flaky(1, ConnectionError("away"), retries=2, backoff=60)

    @function_agent(tools=[charge])
    async def pay() -> str:
        return await step(charge)

    on = await stage(pay, policy=ALLOW)
    run_id = await on.go("pay", "")
    await later(on)
    assert (len(keys), (await on.run(run_id)).answer) == (2, "charged")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"retries": 2}, "add idempotent=True"),
        ({"retries": -1, "idempotent": True}, "retries must be 0 to"),
        ({"backoff": 0}, "backoff must be more than 0"),
    ],
)
def test_retries_that_cannot_be_kept_are_refused(options: dict[str, Any], problem: str) -> None:
    """A tool that may not be repeated has no retries; numbers have bounds."""
    with pytest.raises(ValueError, match=problem):

        @tool(**options)
        def charge() -> str:
            return "charged"

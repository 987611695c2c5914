"""Limits over time on what agents do: they bound what runs without a person, and nothing is lost or counted twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from agent.domain.limits import Limit
from agent.domain.policy import Policy
from agent.domain.replay import Totals, replay
from agent.domain.request import Ballot, Verdict
from agent.domain.rules import Defaults
from agent.domain.run import AnswerKind, CallState, CallView
from agent.runtime.agents import Agent
from agent.runtime.immediate_claims import process_votes
from agent.runtime.judging.edits import judge_edit
from agent.runtime.model_turn import advance_run
from agent.runtime.tool import Tool, tool
from agent.usecases import judgements, limits, requests, runs
from agent.usecases.requests import EditAttempt
from signoff import StepFailed, function_agent, step
from signoff.values import Action
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from slackbot.cards import status
from tests.integration import alone
from tests.integration.invariants import broken
from tests.integration.runtime.conftest import REVIEWER, Stage
from tests.integration.runtime.test_immediate_claims import STANDING, slots, vote
from tests.statement_counter import counting

Staged = Callable[..., Awaitable[Stage]]

DAY = timedelta(days=1)
done: list[float] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    done.clear()


@tool
def pay(amount: Any = None) -> str:
    """Pay so much."""
    if amount == 13:
        raise RuntimeError("no")
    done.append(amount)
    return f"paid {amount}"


def payer(*tools: Tool, name: str = "payer") -> Agent:
    return Agent(name, "You pay.", tools or (pay,))


def limit(**changes: Any) -> Limit:
    whole = Limit("pays", "pay", "args.amount", "all", DAY, Decimal(5000))
    return replace(whole, **changes)


def policy(*of: Limit, unmatched: str = "allow", **more: Any) -> Policy:
    return Policy(
        defaults=Defaults(unmatched=unmatched, on_reject="tell_model", **more), limits=of or (limit(),)
    )


def paying(*amounts: Any) -> ScriptedTurn:
    return ScriptedTurn(calls=tuple(ScriptedCall("pay", {"amount": each}) for each in amounts))


async def proposed(on: Stage, *amounts: Any, agent: str = "payer") -> list[CallView]:
    """The calls of a turn with these amounts, as far as they go by themselves."""
    on.model.script(paying(*amounts))
    return list(await on.calls(await on.go(agent, "pay them")))


async def used(on: Stage, *of: Limit) -> list[tuple[str, Decimal, Decimal]]:
    await limits.settle_ended(on.db)
    found = await limits.by_subject(on.db, of or on.services.policy.limits)
    return [(each.subject, each.used, each.waiting) for each in found]


def states(calls: list[CallView]) -> list[CallState]:
    return sorted(each.state for each in calls)


async def test_many_calls_of_one_turn_share_one_limit(stage: Staged) -> None:
    """Of eight calls of 999 under 5,000, five run; people are asked about the others, because of the limit."""
    on = await stage(payer(), policy=policy())
    calls = await proposed(on, *[999] * 8)
    assert done == [999] * 5
    assert states(calls) == sorted([CallState.ANSWERED] * 5 + [CallState.ASKED] * 3)
    assert await used(on) == [("all", Decimal(4995), Decimal(3 * 999))]
    waiting = [each for each in calls if each.state is CallState.ASKED]
    judged = "SELECT verdict, ruled FROM judgement WHERE request_id IS NOT NULL"
    assert await on.sql(judged) == [("ask", "run")] * 3  # the checkpoints alone would have let it run
    assert await on.sql("SELECT count(*), count(DISTINCT call_id) FROM judgement") == [(8, 8)]
    [shown] = (await on.request(waiting[0])).limits
    assert (shown.name, shown.max, shown.reached) == ("pays", Decimal(5000), True)
    for each in waiting:
        await on.approve(each)
    assert done == [999] * 8
    assert await used(on) == [("all", Decimal(8 * 999), Decimal(0))]
    assert await broken(on.db) == []


async def test_what_a_limit_asks_about_is_replayed_as_what_the_checkpoints_say(stage: Staged) -> None:
    """Neither a full limit nor a rejection of what it asked about changes that the checkpoints let the call run."""
    on = await stage(payer(), policy=policy(limit(max=Decimal(9)), rejected_holds=timedelta(hours=1)))
    (asked,) = await proposed(on, 10)
    await on.reject(asked)
    (again,) = await proposed(on, 10)
    assert again.answer is not None
    assert "recently rejected" in again.answer.text
    totals = Totals()
    async for page in judgements.recorded(on.db, datetime.now(UTC) - timedelta(hours=1)):
        assert list(replay(on.services.policy, page, totals)) == []
    assert totals.verdicts == {("run", "run"): 2}


async def test_the_claim_alone_adds_up_what_just_runs(stage: Staged) -> None:
    """A call is added up once when its limit has room, and first once its process knows the limit to be full."""
    on = await stage(payer(), policy=policy(limit(max=Decimal(9), then="deny")))
    for amount, sums, kind in [
        (5, 1, AnswerKind.RESULT),
        (5, 2, AnswerKind.DENIED),
        (5, 1, AnswerKind.DENIED),
    ]:
        with counting() as counted:
            [call] = await proposed(on, amount)
        assert call.answer is not None
        assert call.answer.kind is kind
        assert sum("limit_settled" in each for each in counted.statements) == sums
    await on.sql("UPDATE limit_use SET at = at - interval '25 hours'")
    await on.sql("UPDATE execution SET started_at = started_at - interval '25 hours'")
    for amount, sums in [(4, 1), (5, 2), (0, 1)]:
        with counting() as counted:
            assert states(await proposed(on, amount)) == [CallState.ANSWERED]
        assert sum("limit_settled" in each for each in counted.statements) == sums
    assert done == [5, 4, 5, 0]
    moved = ("a fact has the time of its event", "execution.claimed")  # above
    assert await broken(on.db) == [moved]


async def test_what_is_released_makes_room_again(stage: Staged) -> None:
    """A rejected question and a call that failed count no more; what they took can be taken by others."""
    on = await stage(payer(), policy=policy(limit(max=Decimal(20))))
    [failed] = await proposed(on, 13)
    [asked] = await proposed(on, 21)
    assert failed.answer is not None
    assert failed.answer.kind is AnswerKind.ERROR
    assert await used(on) == [("all", Decimal(0), Decimal(21))]
    assert states(await proposed(on, 1)) == [CallState.ASKED]
    await on.reject(asked)
    assert states(await proposed(on, 19)) == [CallState.ANSWERED]
    assert done == [19]
    assert await used(on) == [("all", Decimal(19), Decimal(1))]


async def test_a_limit_that_denies(stage: Staged) -> None:
    """What has run makes it deny; what only waits for people makes it ask; an approved call is never denied."""
    on = await stage(payer(), policy=policy(limit(max=Decimal(10), then="deny")))
    [asked] = await proposed(on, "ten")
    assert asked.state is CallState.ASKED
    await on.approve(asked)  # what cannot be counted counts as nothing once somebody has approved it
    [call] = await proposed(on, 10)
    assert (call.state, done) == (CallState.ANSWERED, ["ten", 10])
    [call] = await proposed(on, 1)
    assert call.answer is not None
    assert call.answer.kind is AnswerKind.DENIED
    assert 'limit "pays": 10 of 10 used in 24h, and this takes 1 more' in call.answer.text
    strict = policy(limit(max=Decimal(10), then="deny", name="fresh"), unmatched="review")
    on.go_by(strict)
    [asked] = await proposed(on, 8)
    on.go_by(replace(strict, defaults=Defaults(unmatched="allow")))
    [second] = await proposed(on, 3)
    assert second.state is CallState.ASKED
    await on.approve(second)
    await on.approve(asked)
    assert done == ["ten", 10, 3, 8]
    assert await used(on) == [("all", Decimal(11), Decimal(0))]


@pytest.mark.parametrize("amount", [None, "5", True, -1, -1e308, {"n": 1}, [1]], ids=str)
async def test_what_cannot_be_counted_is_asked_about(stage: Staged, amount: Any) -> None:
    """A missing number, text, a boolean or a negative number is a reason to ask, and makes no room for others."""
    on = await stage(payer(), policy=policy(limit(max=Decimal(5))))
    assert states(await proposed(on, 5, amount)) == [CallState.ANSWERED, CallState.ASKED]
    assert states(await proposed(on, 0.5)) == [CallState.ASKED]
    assert done == [5]


async def test_decimals_are_exact(stage: Staged) -> None:
    """Ten times 0.1 are 1, not 0.9999999999999999, and one tenth more is too much."""
    on = await stage(payer(), policy=policy(limit(max=Decimal(1))))
    calls = await proposed(on, *[0.1] * 10)
    assert [call.answer.text for call in calls if call.answer] == ["paid 0.1"] * 10
    assert await used(on) == [("all", Decimal("1.0"), Decimal(0))]
    assert states(await proposed(on, 1e-300)) == [CallState.ASKED]


async def test_subjects(stage: Staged) -> None:
    """Each agent has its own room where the limit is per agent; calls are counted one by one."""
    counted = limit(name="calls", of="count", per="agent", max=Decimal(1))
    on = await stage(payer(), payer(name="other"), policy=policy(counted))
    assert states(await proposed(on, 1)) == [CallState.ANSWERED]
    assert states(await proposed(on, 1)) == [CallState.ASKED]
    assert states(await proposed(on, 1, agent="other")) == [CallState.ANSWERED]
    found = await used(on)
    assert found == [("agent:other", Decimal(1), Decimal(0)), ("agent:payer", Decimal(1), Decimal(1))]


async def test_the_window_slides(stage: Staged) -> None:
    """A use counts for as long as the window reaches back, by the time of the claim; a question counts all the time."""
    on = await stage(payer(), policy=policy(limit(max=Decimal(10))))
    await proposed(on, 10)
    [asked] = await proposed(on, 5)
    for hours, state in ((23.9, CallState.ASKED), (0.2, CallState.ASKED)):
        await limits.settle_ended(on.db)
        ago = f"make_interval(secs => {hours * 3600})"
        await on.sql(f"UPDATE limit_use SET at = at - {ago}")
        assert states(await proposed(on, 6)) == [state]
    assert (await used(on))[0][1] == 0  # the ten are out of the window; three questions wait
    await on.approve(asked)
    assert await used(on) == [("all", Decimal(5), Decimal(12))]


async def test_a_use_counts_from_its_attempt_and_not_from_the_sweep(stage: Staged) -> None:
    """However late a call that has ended is settled, its use leaves the window 24 hours after its attempt began."""
    on = await stage(payer(), policy=policy(limit(max=Decimal(10))))
    await proposed(on, 10)
    await on.sql("UPDATE execution SET started_at = started_at - interval '23.9 h'")
    assert states(await proposed(on, 1)) == [CallState.ASKED]
    await on.sql("UPDATE execution SET started_at = started_at - interval '0.2 h'")
    assert await used(on) == [("all", Decimal(0), Decimal(1))]
    assert states(await proposed(on, 9)) == [CallState.ANSWERED]


async def test_functions_of_children_and_background_calls(stage: Staged) -> None:
    """A step of a function agent, a child run's calls and calls in the background are counted like any other."""

    @tool(background=True)
    def pay_later(amount: int) -> str:
        """Pay some day."""
        done.append(amount)
        return "paid"

    @function_agent(tools=[pay])
    async def steps(task: str) -> str:
        """Pay step by step."""
        return str([await step(pay, amount=each) for each in (1, 2)])

    child = Agent("child", "You pay.", (pay,))
    boss = Agent("boss", "You hand down.", (child.as_tool(), pay_later))
    whose = limit(action_pattern="pay", per="requester", max=Decimal(9))
    by_agent = limit(name="by agent", per="agent", max=Decimal(9))
    on = await stage(boss, steps, policy=policy(whose, by_agent))
    await on.go("steps", "pay")
    on.model.script(
        ScriptedTurn(
            calls=(ScriptedCall("child", {"task": "pay"}), ScriptedCall("pay_later", {"amount": 3}))
        ),
        paying(2),
        *["Done."] * 4,
    )
    await on.go("boss", "have it paid")
    assert sorted(done) == [1, 2, 2, 3]
    requester = "requester:T0TEST/U0ASKER"
    assert await used(on, whose) == [(requester, Decimal(8), Decimal(0))]
    assert await used(on, by_agent) == [
        ("agent:boss", Decimal(3), Decimal(0)),
        ("agent:steps", Decimal(3), Decimal(0)),
        ("agent:child", Decimal(2), Decimal(0)),
    ]
    assert await broken(on.db) == []


@pytest.mark.parametrize("result", [object(), "x" * 2**20], ids=["not JSON", "too large"])
async def test_a_step_whose_result_cannot_be_stored_has_run(stage: Staged, result: Any) -> None:
    """Its effect counts and its card says so; the step raises, and says what is wrong with the result."""

    @tool(name="pay")
    def pay_oddly(amount: int) -> Any:
        done.append(amount)
        return result

    @function_agent(tools=[pay_oddly])
    async def steps(task: str) -> str:
        try:
            return str(await step(pay_oddly, amount=5))
        except StepFailed as error:
            return str(error)

    on = await stage(steps, policy=policy(unmatched="review"))
    run_id = await on.go("steps", "pay")
    [call] = await on.calls(run_id)
    await on.approve(call)
    answer = (await on.run(run_id)).answer
    assert answer is not None
    assert answer.startswith("pay: it ran, but its result cannot be stored: ValueError: it returned ")
    assert await used(on) == [("all", Decimal(5), Decimal(0))]
    assert "Done" in str(status.parts(await on.request(call)))


async def test_an_edit_changes_what_is_reserved_and_used(stage: Staged) -> None:
    """What waits, and then counts, is the amount that a reviewer has made of the call."""
    on = await stage(payer(), policy=policy(unmatched="review", allow_edit=True, editor_may_approve=True))
    [call] = await proposed(on, 4000)
    assert await used(on) == [("all", Decimal(0), Decimal(4000))]
    view = await on.request(call)
    attempt = EditAttempt(view.id, 1, STANDING, "test")
    edited = await judge_edit(on.services, view, {"amount": 7.5}, attempt)
    assert (await requests.edit(on.db, edited)).revision == 2
    assert await used(on) == [("all", Decimal(0), Decimal("7.5"))]
    ballot = Ballot(view.id, 2, Verdict.APPROVE, STANDING, {REVIEWER: STANDING}, "test")
    await alone.vote(on.db, ballot)
    await on.play()
    assert done == [7.5]
    assert await used(on) == [("all", Decimal("7.5"), Decimal(0))]


async def test_a_claim_with_its_decision_writes_its_use(stage: Staged) -> None:
    """A limit that came after the question counts what a vote lets run, in that transaction, and does not refuse it."""
    on = await stage(payer(), policy=Policy())
    [call] = await proposed(on, 9)
    late = policy(limit(max=Decimal(5), then="deny"), unmatched="review")
    on.go_by(late)
    queue = slots()
    await vote(process_votes(on.services, queue), call)
    assert await on.sql("SELECT amount, settled FROM limit_use") == [(Decimal(9), False)]
    await queue.stop(10)
    assert done == [9]
    assert await used(on) == [("all", Decimal(9), Decimal(0))]


async def test_a_call_that_was_let_through_finds_no_room_at_its_claim(stage: Staged) -> None:
    """What policy let run before the limit was there, or full, is judged again at its claim, and people are asked."""
    on = await stage(payer(), policy=policy())
    run_id = await on.start("payer", "pay")
    on.model.script(paying(3))
    await advance_run(on.services, run_id)
    [call] = await on.calls(run_id)
    assert await runs.pass_call(on.db, call.id, Action("pay", pay.version, {"amount": 3}))
    on.go_by(policy(limit(max=Decimal(2))))
    await on.play()
    [call] = await on.calls(run_id)
    assert (call.state, done) == (CallState.ASKED, [])
    assert 'limit "pays"' not in (await on.request(call)).description
    await on.approve(call)
    assert done == [3]
    assert await broken(on.db) == []


async def test_facts_that_change_ask_again_with_what_they_say_now(stage: Staged) -> None:
    """An approval that is void reserves for the question that follows it, with the amount of its new facts."""
    price = [Decimal(10)]

    @tool(facts=lambda order: {"price": price[0]})
    def charge(order: int) -> str:
        """Charge for an order."""
        done.append(float(price[0]))
        return "charged"

    by_price = limit(action_pattern="charge", of="facts.price", max=Decimal(5))
    on = await stage(payer(charge), policy=policy(by_price))
    on.model.script(ScriptedTurn(calls=(ScriptedCall("charge", {"order": 1}),)))
    run_id = await on.go("payer", "charge it")
    [call] = await on.calls(run_id)
    assert await used(on) == [("all", Decimal(0), Decimal(10))]
    price[0] = Decimal("12.5")
    await on.approve(call)
    assert (await used(on), done) == ([("all", Decimal(0), Decimal("12.5"))], [])
    [call] = await on.calls(run_id)
    await on.approve(call)
    assert (await used(on), done) == ([("all", Decimal("12.5"), Decimal(0))], [12.5])

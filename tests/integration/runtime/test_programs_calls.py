"""A worker never takes a call that a program proposed, whatever its agent, tool and arguments are called."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.exc import IntegrityError

from agent.domain.api_keys import Principal, Scope
from agent.domain.checkpoints import load
from agent.domain.errors import OutdatedPolicy
from agent.domain.facts import Facts, FactsSource
from agent.domain.judgement import Inputs, Judgement, ToolTraits
from agent.domain.people import Standing
from agent.domain.request import ApprovalState, Ballot, ExecutionStatus, Verdict
from agent.domain.request_list import RequestKind
from agent.domain.run import AnswerKind, CallAnswer, CallState, CallView
from agent.runtime import external_calls
from agent.runtime.agents import Agent
from agent.runtime.calls import advance_call
from agent.runtime.judging import program_claims
from agent.runtime.judging.programs import ask
from agent.runtime.tool import tool
from agent.store import approvals, call_locks, views
from agent.store.audit import SYSTEM
from agent.usecases import calls, pause, requests, runs
from agent.usecases.calls import CallToClaim, ClaimTerms, Outcome
from agent.usecases.calls.program_claims import ClaimRefused, ProgramClaim, hand_over_together, random_token
from agent.usecases.requests.voids import UNCLAIMED
from signoff.errors import Conflict
from signoff.values import Action
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from tests.integration import alone, invariants
from tests.integration.asking import column, programs_question, rule, write
from tests.integration.runtime.conftest import ASKER, REVIEWER, TEAM, Stage
from tests.integration.runtime.test_program_cost import STANDING, question, view_of

POLICY = """
[defaults]
channel = "C0REVIEW"
approvers = ["channel"]

[[checkpoint]]
checkpoint_id = "all"
action_pattern = ".*"
execute_within = "1h"
"""
OTHER = Principal(UUID(int=2), "warehouse", frozenset({Scope.EXECUTE}), None, None)


@dataclass
class Shop:
    """An agent that is served here, and a program that uses its name and those of its tools."""

    stage: Stage
    key: Principal
    tool: str
    ran: list[str] = field(default_factory=list)
    call_id: UUID = field(init=False)
    request_id: UUID = field(init=False)
    claim: ProgramClaim | None = None

    async def asks(self) -> None:
        opened = await ask(self.stage.services, question(self.key, self.tool, order=7))
        self.request_id = opened.request_id  # type: ignore[union-attr]
        self.call_id = (await view_of(self.stage, self.request_id)).call_id

    async def approves(self) -> None:
        ballot = Ballot(self.request_id, 1, Verdict.APPROVE, STANDING, {REVIEWER: STANDING}, "test")
        await alone.vote(self.stage.db, ballot)

    async def reads(self) -> None:
        assert await hand_over_together(self.stage.db, [self.request_id], wait=True) != [None]

    async def claims(self, price: int = 5) -> ProgramClaim | program_claims.AskedAgain:
        got = await program_claims.claim(
            self.stage.services,
            await view_of(self.stage, self.request_id),
            self.key,
            random_token,
            digest=None,
            facts=Facts({"price": price}, source=FactsSource.PROGRAM),
            lease_seconds=60,
        )
        if isinstance(got, ProgramClaim):
            self.claim = got
        return got

    async def falls_silent(self) -> None:
        await write(
            self.stage.db, "UPDATE execution SET lease_until = clock_timestamp() WHERE status = 'claimed'"
        )

    async def is_in_doubt(self) -> None:
        await self.falls_silent()
        assert await calls.rescue(self.stage.db) == 1

    async def is_retried(self) -> None:
        assert self.claim is not None
        await requests.settle(self.stage.db, self.claim.execution_id, STANDING, "retry")

    async def reports(self) -> None:
        assert self.claim is not None
        done = Outcome(ExecutionStatus.SUCCEEDED, "5")
        await external_calls.report(self.stage.services, self.call_id, self.key, self.claim.token, done)

    async def is_asked_again(self) -> None:
        again = await self.claims(price=6)
        assert isinstance(again, program_claims.AskedAgain)
        self.request_id = again.request_id

    async def state(self) -> CallState:
        async with self.stage.db.connection() as connection:
            found = await call_locks.find(connection, self.call_id)
        assert found is not None
        return found.state


STEPS: dict[str, tuple[list[str], CallState]] = {
    "asked": (["asks"], CallState.ASKED),
    "approved": (["asks", "approves"], CallState.READY),
    "read": (["asks", "approves", "reads"], CallState.READY),
    "claimed": (["asks", "approves", "claims"], CallState.CLAIMED),
    "silent": (["asks", "approves", "claims", "falls_silent"], CallState.CLAIMED),
    "in doubt": (["asks", "approves", "claims", "is_in_doubt"], CallState.IN_DOUBT),
    "retried": (["asks", "approves", "claims", "is_in_doubt", "is_retried"], CallState.READY),
    "reported": (["asks", "approves", "claims", "reports"], CallState.ANSWERED),
    "asked again": (["asks", "approves", "is_asked_again"], CallState.ASKED),
    "read and asked again": (["asks", "approves", "reads", "is_asked_again"], CallState.ASKED),
    "approved again": (["asks", "approves", "is_asked_again", "approves"], CallState.READY),
}


@pytest.fixture(params=["refund", "ship"])
async def shop(
    stage: Callable[..., Awaitable[Stage]], key: Principal, request: pytest.FixtureRequest
) -> Shop:
    ran: list[str] = []

    @tool
    def refund(order: int, secret: bool) -> str:
        """Refunds an order."""
        ran.append("refund")
        return "refunded"

    @tool(external=True)
    def ship(order: int, secret: bool) -> str:
        """Ships an order."""
        ran.append("ship")
        return "shipped"

    made = await stage(
        Agent("shop", "You sell.", [refund, ship]), policy=load(POLICY, filename="checkpoints.toml")
    )
    return Shop(made, key, request.param, ran)


@pytest.mark.parametrize("state", STEPS)
async def test_a_worker_never_takes_what_a_program_proposed(shop: Shop, state: str) -> None:
    """In each state no look, wake-up, forged claim, poll, pause or raw row has the service begin it."""
    on, (steps, expected) = shop.stage, STEPS[state]
    for step in steps:
        await getattr(shop, step)()
    assert await shop.state() is expected
    attempts = await column(on.db, "SELECT count(*) FROM execution")

    assert await on.due() == []
    await advance_call(on.services, shop.call_id)
    await pause.pause(on.db, "shop", by="test", reason=None)
    await pause.resume(on.db, "shop", by="test")
    await on.play()
    for run_id in (None, UUID(int=3)):
        terms = ClaimTerms("worker", idempotent=True)
        [forged] = await calls.ClaimCalls(on.db).send(
            [CallToClaim(shop.call_id, run_id, shop.request_id, terms)], wait=True
        )
        assert forged is None
    assert await external_calls.handed_out(on.services, OTHER) == []
    with pytest.raises(IntegrityError):
        await write(
            on.db,
            "INSERT INTO execution (id, call_id, executor, attempt, digest, idempotent, worker, lease_until,"
            " policy_epoch) VALUES (gen_random_uuid(), :call, 'here', 9, '', true, 'w', now(), 0)",
            call=shop.call_id,
        )

    assert shop.ran == []
    assert await shop.state() is expected
    assert await column(on.db, "SELECT count(*) FROM execution") == attempts
    assert await invariants.broken(on.db) == []


async def test_an_old_name_never_claims_a_new_approval(shop: Shop) -> None:
    """A void request leads to the one that asks again, also when that is approved; its claim takes no approval."""
    for step in ("asks", "approves"):
        await getattr(shop, step)()
    void = shop.request_id
    await shop.is_asked_again()
    await shop.approves()
    latest, shop.request_id = shop.request_id, void
    assert await shop.claims() == program_claims.AskedAgain(latest)
    terms = ClaimTerms(shop.key.name, idempotent=False, claim_hash=b"h" * 32)
    stale = CallToClaim(shop.call_id, None, void, terms)
    assert await alone.alone(calls.ClaimCalls(shop.stage.db), stale) is None
    assert await shop.state() is CallState.READY


async def test_a_later_approval_lapses_whatever_was_attempted_before(shop: Shop) -> None:
    """After a doubt, Retry and a void, `execute_within` counts from the new decision."""
    for step in ("asks", "approves", "claims", "is_in_doubt", "is_retried", "is_asked_again", "approves"):
        await getattr(shop, step)()
    over = "UPDATE tool_call SET lapse_at = clock_timestamp() - interval '1 s' WHERE state = 'ready'"
    await write(shop.stage.db, over)
    terms = ClaimTerms(shop.key.name, idempotent=False, claim_hash=b"h" * 32)
    late = CallToClaim(shop.call_id, None, shop.request_id, terms)
    assert await alone.alone(calls.ClaimCalls(shop.stage.db), late) is None
    with pytest.raises(ClaimRefused) as caught:
        await shop.claims(price=6)
    assert caught.value.kind == "lapsed"
    assert await requests.lapse_due(shop.stage.db) == 1
    assert await shop.state() is CallState.ANSWERED


async def test_waiting_questions_of_programs_hide_no_work(shop: Shop) -> None:
    """Two hundred questions in the name of an agent that is served here are no work for it."""
    for number in range(200):
        asked = replace(
            question(shop.key, shop.tool, order=number), client_id=f"many-{number}", content=b"%032d" % number
        )
        await ask(shop.stage.services, asked)
    assert await shop.stage.due() == []
    run_id = await shop.stage.start("shop", "refund 7")
    assert [each.key for each in await shop.stage.due()] == [run_id]
    counted: Any = await column(shop.stage.db, "SELECT count(*) FROM tool_call WHERE state = 'asked'")
    assert counted == [200]


async def test_what_a_program_executes_for_a_run_is_no_work_here(shop: Shop) -> None:
    """The run's call of an external tool is ready for programs, and for no worker."""
    shop.stage.model.script(ScriptedTurn(calls=(ScriptedCall("ship", {"order": 7, "secret": False}),)))
    run_id = await shop.stage.go("shop", "ship 7")
    (call,) = await shop.stage.calls(run_id)
    await shop.stage.vote(call, Verdict.APPROVE)
    assert await shop.stage.due() == []
    [offered] = await external_calls.handed_out(shop.stage.services, OTHER)
    assert offered.id == call.id
    assert shop.ran == []


async def approved_for_a_program(shop: Shop) -> CallView:
    shop.stage.model.script(
        ScriptedTurn(calls=(ScriptedCall("ship", {"order": 7, "secret": False}),)), "It is over."
    )
    run_id = await shop.stage.go("shop", "ship 7")
    (call,) = await shop.stage.calls(run_id)
    await shop.stage.vote(call, Verdict.APPROVE)
    return call


async def test_what_no_program_can_begin_is_said_alike_everywhere(shop: Shop) -> None:
    """Card, list and model say that nothing was run, and no attempt is on record."""
    on, call = shop.stage, await approved_for_a_program(shop)
    await requests.end_unclaimed(
        on.db, call.id, call.request_id, "the depot is gone", worker="w", policy_epoch=0
    )
    await on.play()
    assert (await on.request(call)).standing is ApprovalState.NOT_RUN
    async with on.db.connection() as connection:
        [line] = await views.found_requests(connection, TEAM, RequestKind.DECIDED)
    assert line.approval is ApprovalState.NOT_RUN
    [now] = await on.calls(call.run_id)
    assert now.answer == CallAnswer(AnswerKind.NOTHING_DONE, "the depot is gone")
    assert await column(on.db, "SELECT count(*) FROM execution") == [0]
    assert await invariants.broken(on.db) == []


async def end(on: Stage, call: CallView) -> None:
    ended = partial(requests.end_unclaimed, on.db, call.id, call.request_id, worker="w", policy_epoch=0)
    await ended("the depot is gone")


async def lapse(on: Stage, call: CallView) -> None:
    await on.sql("UPDATE tool_call SET lapse_at = clock_timestamp() WHERE state = 'ready'")
    await requests.lapse_due(on.db)


async def cancel(on: Stage, call: CallView) -> None:
    assert await runs.cancel(on.db, call.run_id, Standing(ASKER))


@pytest.mark.parametrize("attempted", [False, True])
@pytest.mark.parametrize(("stop", "answer"), [(end, "the depot is gone"), (lapse, UNCLAIMED), (cancel, None)])
async def test_what_was_claimed_before_may_have_had_its_effect(
    shop: Shop, attempted: bool, stop: Callable[[Stage, CallView], Awaitable[None]], answer: str | None
) -> None:
    """However a call ends that waits for its next attempt: nobody reads that nothing was done, or run."""
    on, call = shop.stage, await approved_for_a_program(shop)
    if attempted:
        await external_calls.claim(on.services, call.id, OTHER, digest=None, lease_seconds=60)
        await shop.is_in_doubt()
        [doubt] = await column(on.db, "SELECT id FROM execution")
        await requests.settle(on.db, doubt, STANDING, "retry")
    await stop(on, call)
    await on.play()
    lines = await column(on.db, "SELECT body ->> 'line' FROM delivery WHERE kind = 'thread_line'")
    assert ("stopped" in lines, "not_repeated" in lines) == (
        stop is not lapse and not attempted,
        stop is not lapse and attempted,
    )
    [now] = await on.calls(call.run_id)
    if answer is not None:
        assert now.answer == CallAnswer(AnswerKind.ERROR if attempted else AnswerKind.NOTHING_DONE, answer)


async def test_an_older_look_ends_no_newer_approval(shop: Shop) -> None:
    """Neither one under another request, nor by a policy that is not in force; a denial is kept with its inputs."""
    on, call = shop.stage, await approved_for_a_program(shop)
    end = partial(requests.end_unclaimed, on.db, call.id, worker="w")
    await end(UUID(int=9), "it is too old", policy_epoch=0)
    with pytest.raises(OutdatedPolicy):
        await end(call.request_id, "policy denies it", policy_epoch=7)
    [now] = await on.calls(call.run_id)
    assert now.state is CallState.READY
    inputs = Inputs(ToolTraits("ship", "1"), Action("ship", "1", {}), None, "shop", None)
    denied = Judgement("deny", None, "never on Sundays", inputs=inputs)
    await end(call.request_id, "policy denies it", policy_epoch=0, judgement=denied)
    because = "SELECT because FROM judgement WHERE call_id = :call AND verdict = 'deny'"
    assert await column(on.db, because, call=call.id) == ["never on Sundays"]
    [ended] = await on.calls(call.run_id)
    assert ended.state is CallState.REFUSED


async def test_a_program_that_fell_silent_did_not_say_so_itself(shop: Shop) -> None:
    """The doubt about its attempt is on record as the system's word."""
    for step in ("asks", "approves", "claims", "is_in_doubt"):
        await getattr(shop, step)()
    who = "SELECT actor FROM audit_event WHERE event = 'execution.in_doubt'"
    assert await column(shop.stage.db, who) == [SYSTEM]


async def test_an_older_look_voids_no_newer_approval(shop: Shop) -> None:
    """Who judged an approval that has become void meanwhile is refused, also once people have approved again."""
    for step in ("asks", "approves"):
        await getattr(shop, step)()
    void = shop.request_id
    await shop.is_asked_again()
    await shop.approves()
    anew = programs_question(rule(), principal=shop.key.name, call_id=shop.call_id)
    with pytest.raises(Conflict):
        await requests.void_and_ask(shop.stage.db, shop.call_id, void, anew)
    assert await shop.state() is CallState.READY
    assert isinstance(await shop.claims(price=6), ProgramClaim)


async def test_a_claim_that_was_overtaken_leads_to_the_question(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judged while the approval stood, and void when it would have begun: the answer is the request that asks again."""
    for step in ("asks", "approves"):
        await getattr(shop, step)()
    void, find = shop.request_id, approvals.find
    again: list[UUID] = []

    async def overtaken(*given: Any) -> Any:
        found = await find(*given)
        if not again:
            again.append(void)
            await shop.is_asked_again()
            again[0], shop.request_id = shop.request_id, void
        return found

    monkeypatch.setattr(approvals, "find", overtaken)
    assert await shop.claims() == program_claims.AskedAgain(again[0])

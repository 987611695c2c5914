"""Calls that people have allowed in advance: run without a question, unless anything is in doubt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest

from agent.domain.api_keys import Principal, Scope
from agent.domain.checkpoints import load
from agent.domain.errors import Refusal
from agent.domain.facts import Facts
from agent.domain.field_constraints import Between
from agent.domain.grants import CallToCover
from agent.domain.limits import Limit
from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.domain.replay import Totals, replay
from agent.domain.request import Ballot, RequestStatus, Verdict
from agent.domain.rules import Defaults, Denial, GrantLimits, Rule
from agent.domain.run import CallState, CallView
from agent.runtime import external_calls
from agent.runtime.agents import Agent, Registry
from agent.runtime.immediate_claims import process_votes
from agent.runtime.model_turn import advance_run
from agent.runtime.policy_in_force import PolicyInForce
from agent.runtime.tool import NotDone, tool
from agent.store.outbox import Destination
from agent.usecases import calls as call_usecases
from agent.usecases import grants, judgements, runs
from agent.usecases import policy as policies
from agent.usecases.calls import CallToClaim, ClaimTerms
from agent.usecases.calls.program_claims import ClaimRefused
from agent.usecases.grants import Cover, GrantProposal
from agent.usecases.runs import NewRun
from signoff.values import Action, Person
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from tests.integration.runtime.conftest import ASKER, CHANNEL, REVIEWER, TEAM, Stage

RULE = Rule(
    checkpoint_id="refunds",
    action_pattern="refund",
    on_reject="tell_model",
    allow_grants=True,
    rejected_holds=timedelta(hours=1),
    rejected_again="show",
)
POLICY = Policy(rules=(RULE,), grants=GrantLimits(timedelta(days=1), 10))
TERMS = """
[[checkpoint]]
checkpoint_id = "refunds"
action_pattern = "refund"
allow_grants = true

[grants]
max_for = "1d"
max_uses = 10
"""
DEAR = """
[[checkpoint]]
checkpoint_id = "dear"
action_pattern = "refund"
when = "args.amount > 25"
"""


@dataclass
class Checks:
    """What the front end says of people and of the scan for secrets."""

    standing: Standing = field(default_factory=lambda: Standing(REVIEWER, frozenset({"channel"})))
    scanned: bool = True
    asked: int = 0
    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def standings(
        self, people: Collection[Person], approvers: Sequence[str], channel_id: str
    ) -> Mapping[Person, Standing]:
        self.asked += 1
        if self.meanwhile is not None:
            await self.meanwhile()
        assert (set(people), tuple(approvers), channel_id) == ({REVIEWER}, ("channel",), CHANNEL)
        return {self.standing.person: self.standing}

    async def is_scanned(self, call: CallToCover) -> bool:
        return self.scanned


@dataclass
class Shop:
    """A stage with an agent that refunds, and what its tool has done."""

    stage: Stage
    checks: Checks
    done: list[int]
    prices: dict[int, Any]

    async def refund(self, amount: int) -> UUID:
        """A run that proposes this refund, played as far as it goes without people."""
        self.stage.model.script(ScriptedTurn("I refund it.", (ScriptedCall("refund", {"amount": amount}),)))
        return await self.stage.go("shop", f"refund {amount}")

    async def allow(self, amount: int = 10, **changes: Any) -> UUID:
        """People approve this refund, and refunds up to 100."""
        proposed = await self.propose(amount, **changes)
        await self.stage.vote(proposed, Verdict.APPROVE)
        assert proposed.request_id is not None
        return proposed.request_id

    async def propose(self, amount: int = 10, **changes: Any) -> CallView:
        """This refund, approved, under the request to allow refunds up to 100."""
        run_id = await self.refund(amount)
        [call] = await self.stage.calls(run_id)
        await self.stage.approve(call)
        assert call.request_id is not None
        terms: dict[str, Any] = {
            "origin": call.request_id,
            "by": REVIEWER,
            "arguments": {"amount": Between(Decimal(1), Decimal(100))},
            "facts": {"price": Between(Decimal(0), Decimal(1000))},
            "anyone": False,
            "lasts": timedelta(hours=1),
            "max_uses": 2,
        }
        proposal = GrantProposal(**(terms | changes))
        epoch, place = self.stage.services.policy.epoch, Destination(TEAM, CHANNEL)
        opened = await grants.propose(self.stage.db, proposal, POLICY.grants, {}, place, policy_epoch=epoch)
        return replace(call, request_id=opened.request_id)

    async def lose(self, grant_id: UUID, amount: int) -> UUID:
        """A run whose call was claimed under the grant by a worker that is gone."""
        self.stage.model.script(ScriptedTurn("I refund it.", (ScriptedCall("refund", {"amount": amount}),)))
        run_id = await self.stage.start("shop", f"refund {amount}")
        await advance_run(self.stage.services, run_id)
        [call] = await self.stage.calls(run_id)
        agent = self.stage.services.registry.find("shop")
        tool = agent.tool("refund") if agent else None
        assert agent is not None
        assert tool is not None
        covered = CallToCover(
            action=Action("refund", tool.version, {"amount": amount}),
            facts=Facts({"price": amount}),
            rule=RULE,
            requester=ASKER,
            agent="shop",
            agent_version=agent.version,
            signature=tool.signature.digest,
        )
        member = CallToClaim(call.id, run_id, None, ClaimTerms("dead", idempotent=True))
        cover = Cover(grant_id, covered, {REVIEWER: self.checks.standing})
        assert await grants.claim(self.stage.db, member, cover) is not None
        await self.stage.sql("UPDATE execution SET lease_until = clock_timestamp() - interval '1 s'")
        await call_usecases.rescue(self.stage.db)
        return run_id

    def newer(self, part: str) -> Registry:
        """The agent as a later release has it: with another version of itself, or of its tool."""
        agent = self.stage.services.registry.find("shop")
        assert agent is not None
        if part == "agent":
            return Registry([replace(agent, version="2")])
        return Registry([replace(agent, tools=[replace(each, version="2") for each in agent.tools])])

    async def state(self, run_id: UUID) -> CallState:
        [call] = await self.stage.calls(run_id)
        return call.state


@pytest.fixture
async def shop(stage) -> Shop:
    done: list[int] = []
    prices: dict[int, Any] = {}

    async def facts(amount: int) -> dict[str, Any]:
        price = prices.get(amount, amount)
        if isinstance(price, Exception):
            raise price
        return {"price": price}

    @tool(facts=facts, idempotent=True)
    async def refund(amount: int) -> str:
        """Refund.

        Args:
            amount: how much
        """
        done.append(amount)
        return "refunded"

    checks = Checks()
    made = await stage(Agent("shop", "Refund.", tools=[refund]), policy=POLICY)
    made.services = replace(made.services, grant_checks=checks)
    return Shop(made, checks, done, prices)


async def test_a_covered_call_runs_without_a_question(shop: Shop) -> None:
    """Two similar calls run at once; the third, beyond the uses, waits for people."""
    grant_id = await shop.allow()
    for amount in (20, 30):
        assert await shop.state(await shop.refund(amount)) is CallState.ANSWERED
    assert await shop.state(await shop.refund(40)) is CallState.ASKED
    assert shop.done == [10, 20, 30]
    used = await shop.stage.sql("SELECT uses FROM approval_grant WHERE request_id = :id", id=grant_id)
    assert [row.uses for row in used] == [2]


async def test_a_grant_covers_nothing_that_policy_denies(shop: Shop) -> None:
    """A denying checkpoint comes before a grant; what it does not catch is covered as before."""
    await shop.allow()
    never = Denial(checkpoint_id="never", action_pattern="refund", when="args.amount > 25")
    shop.stage.go_by(replace(POLICY, denials=(never,)))
    for amount in (20, 30):
        assert await shop.state(await shop.refund(amount)) is CallState.ANSWERED
    assert shop.done == [10, 20]


@pytest.mark.parametrize("when", [None, "args.amount > 25"])
async def test_a_denial_of_calls_denies_no_consent_in_advance(shop: Shop, when: str | None) -> None:
    """Though its checkpoint names every tool: people may allow similar calls, and it catches each call by itself."""
    grant = await shop.propose()
    assert grant.request_id is not None
    never = Denial(checkpoint_id="never", action_pattern=".*", when=when)
    shop.stage.go_by(replace(POLICY, denials=(never,)))
    standing = shop.checks.standing
    ballot = Ballot(grant.request_id, 1, Verdict.APPROVE, standing, {REVIEWER: standing}, "test")
    assert (await process_votes(shop.stage.services).cast(ballot)).status is RequestStatus.APPROVED
    await shop.refund(30)
    assert shop.done == [10]
    shop.stage.go_by(POLICY)
    await shop.refund(30)
    assert shop.done == [10, 30]


async def test_the_claim_of_another_program_is_the_use(shop: Shop) -> None:
    """A covered call of an external tool is handed out unasked; claimed after the grant has ended, it is not done."""

    @tool(name="refund", external=True, facts=lambda amount: {"price": amount})
    def refund(amount: int) -> str:
        """Refund."""
        raise AssertionError("it is done elsewhere")

    served = Registry([Agent("shop", "Refund.", tools=[refund])])
    shop.stage.services = services = replace(shop.stage.services, registry=served)
    program = Principal(uuid4(), "van", frozenset({Scope.EXECUTE}), None, None)
    grant_id = await shop.allow()
    calls = [(await shop.stage.calls(await shop.refund(amount)))[0] for amount in (20, 30)]
    assert [call.state for call in calls] == [CallState.READY, CallState.READY]
    assert {call.id for call in calls} <= {
        each.id for each in await external_calls.handed_out(services, program)
    }
    uses = "SELECT uses FROM approval_grant WHERE request_id = :id"
    assert await shop.stage.sql(uses, id=grant_id) == [(0,)]
    claim = await external_calls.claim(services, calls[0].id, program, digest=None, lease_seconds=60)
    assert claim.action.arguments == {"amount": 20}
    assert await shop.stage.sql(uses, id=grant_id) == [(1,)]
    await grants.revoke_as_operator(shop.stage.db, grant_id, "cli")
    with pytest.raises(ClaimRefused):
        await external_calls.claim(services, calls[1].id, program, digest=None, lease_seconds=60)
    [refused] = await shop.stage.calls(calls[1].run_id)
    assert refused.answer is not None
    assert "needs approval now" in refused.answer.text


async def test_a_use_is_judged_again_by_another_policy(shop: Shop) -> None:
    """Its judgement is kept with what it rests on, once; a replay says that people had allowed it in advance."""
    grant_id = await shop.allow()
    assert await shop.state(await shop.refund(20)) is CallState.ANSWERED
    found = "SELECT verdict, checkpoint_id FROM judgement WHERE grant_id = :id"
    assert await shop.stage.sql(found, id=grant_id) == [("ask", "refunds")]
    totals = Totals()
    since = datetime.now(UTC) - timedelta(hours=1)
    async for page in judgements.recorded(shop.stage.db, since):
        assert len(list(replay(Policy(defaults=Defaults(unmatched="allow")), page, totals))) == 2
    assert totals.said == {("run", "approved"): 1, ("run", "allowed in advance"): 1}


async def test_what_does_not_fit_or_is_not_known_is_asked(shop: Shop) -> None:
    """Another amount, another fact, a failed look-up, an unknown reviewer, an unfinished scan: people are asked."""
    await shop.allow()
    shop.prices |= {50: 5000, 51: ValueError("away")}
    for amount in (101, 50, 51):
        assert await shop.state(await shop.refund(amount)) is CallState.ASKED
    asked = shop.checks.asked
    shop.checks.scanned = False
    assert await shop.state(await shop.refund(21)) is CallState.ASKED
    shop.checks.scanned = True
    shop.checks.standing = Standing(REVIEWER, refusal=Refusal.LOOKUP_FAILED)
    assert await shop.state(await shop.refund(22)) is CallState.ASKED
    assert shop.checks.asked == asked + 1
    assert shop.done == [10]


async def test_what_was_rejected_lately_is_never_covered(shop: Shop) -> None:
    """A rejection in another run, which policy shows to people, outweighs consent in advance to calls like it."""
    [rejected] = await shop.stage.calls(await shop.refund(20))
    await shop.stage.reject(rejected)
    await shop.allow()
    [again] = await shop.stage.calls(await shop.refund(20))
    assert again.state is CallState.ASKED
    shown = (await shop.stage.request(again)).rejected_before
    assert shown is not None
    assert shown.request_id == rejected.request_id
    assert await shop.state(await shop.refund(21)) is CallState.ANSWERED


async def test_a_grant_is_of_its_agents_and_not_for_those_who_gave_it(shop: Shop) -> None:
    """The same call below another agent, or on behalf of who gave the grant, is asked about."""
    served = shop.stage.services
    below = served.registry.find("shop")
    assert below is not None
    shop.stage.services = replace(
        served, registry=Registry([below, Agent("boss", "Hand down.", tools=[below.as_tool()])])
    )
    grant_id = await shop.allow(anyone=True)
    shop.stage.model.script(
        ScriptedTurn("I hand it down.", (ScriptedCall("shop", {"task": "refund"}),)),
        ScriptedTurn("I refund it.", (ScriptedCall("refund", {"amount": 20}),)),
    )
    await shop.stage.go("boss", "have it refunded")
    mine = NewRun("shop", "1", "refund 21", "test", REVIEWER, "slack", TEAM, CHANNEL)
    await runs.start(shop.stage.db, mine)
    shop.stage.model.script(ScriptedTurn("I refund it.", (ScriptedCall("refund", {"amount": 21}),)))
    await shop.stage.play()
    waiting = await shop.stage.sql(
        "SELECT description FROM request_revision AS v JOIN approval_request AS r"
        " ON r.id = v.request_id WHERE r.status = 'waiting' ORDER BY 1"
    )
    assert waiting == [("refund · amount: 20",), ("refund · amount: 21",)]
    assert await shop.state(await shop.refund(22)) is CallState.ANSWERED
    assert await shop.stage.sql("SELECT uses FROM approval_grant WHERE request_id = :id", id=grant_id) == [
        (1,)
    ]


@pytest.mark.parametrize("part", ["agent", "tool"])
async def test_another_version_is_asked_about_at_once(shop: Shop, part: str) -> None:
    """A grant covers no call of another version of its agent or its tool, and still covers those of its own."""
    await shop.allow()
    served = shop.stage.services
    shop.stage.services = replace(served, registry=shop.newer(part))
    assert await shop.state(await shop.refund(20)) is CallState.ASKED
    shop.stage.services = served
    assert await shop.state(await shop.refund(21)) is CallState.ANSWERED
    assert shop.done == [10, 21]


async def test_a_policy_that_comes_into_force_meanwhile_judges_the_use(shop: Shop) -> None:
    """While Slack is asked who gave the grant, another checkpoint comes to catch the call: its people are asked."""
    db, old = shop.stage.db, load(TERMS, filename="checkpoints.toml")
    shop.stage.go_by(replace(old, epoch=(await policies.apply(db, old, by="cli:ada")).epoch))
    grant_id = await shop.allow()
    assert await shop.state(await shop.refund(20)) is CallState.ANSWERED

    async def swap() -> None:
        await policies.apply(db, load(DEAR + TERMS, filename="checkpoints.toml"), by="cli:ada")
        await shop.stage.services.policies.load()

    shop.checks.meanwhile = swap
    [call] = await shop.stage.calls(await shop.refund(30))
    assert (call.state, shop.done) == (CallState.ASKED, [10, 20])
    assert (await shop.stage.request(call)).checkpoint_id == "dear"
    ended = "SELECT ended_because FROM approval_grant WHERE request_id = :id"
    assert await shop.stage.sql(ended, id=grant_id) == [(None,)]


async def test_a_use_counts_in_limits_and_finds_no_room_beyond_them(shop: Shop) -> None:
    """Calls under a grant count like others; beyond the limit people are asked despite the grant."""
    most = Limit("refunds", "refund", "args.amount", "all", timedelta(days=1), Decimal(60))
    shop.stage.go_by(replace(POLICY, limits=(most,)))
    await shop.allow()
    assert await shop.state(await shop.refund(30)) is CallState.ANSWERED
    assert await shop.state(await shop.refund(21)) is CallState.ASKED
    assert shop.done == [10, 30]


async def test_without_checks_or_limits_no_grant_covers(shop: Shop) -> None:
    """A policy that has lost its `[grants]`, and a process that cannot ask Slack, use none."""
    await shop.allow()
    served = shop.stage.services
    for changes in (
        {"policies": PolicyInForce(served.db, replace(POLICY, grants=None))},
        {"grant_checks": None},
    ):
        shop.stage.services = replace(served, **changes)
        assert await shop.state(await shop.refund(20)) is CallState.ASKED


async def test_a_lost_worker_leaves_one_use(shop: Shop) -> None:
    """A worker that dies after its claim has used the grant once; the tool is repeated under that use."""
    grant_id = await shop.allow()
    run_id = await shop.lose(grant_id, 20)
    await shop.stage.play()
    assert await shop.state(run_id) is CallState.ANSWERED
    assert shop.done == [10, 20]
    [row] = await shop.stage.sql("SELECT uses FROM approval_grant WHERE request_id = :id", id=grant_id)
    assert row.uses == 1


@pytest.mark.parametrize("change", ["revoked", "not done", "agent", "tool"])
async def test_a_repeated_attempt_is_judged_again(shop: Shop, change: str) -> None:
    """When the grant has ended, facts cannot be had, or a version is another, the lost attempt is not made again."""
    grant_id = await shop.allow()
    run_id = await shop.lose(grant_id, 20)
    if change == "revoked":
        await grants.revoke_as_operator(shop.stage.db, grant_id, "cli:root")
    elif change in ("agent", "tool"):
        shop.stage.services = replace(shop.stage.services, registry=shop.newer(change))
    else:
        shop.prices[20] = NotDone("nothing to refund")
    await shop.stage.play()
    assert shop.done == [10]
    [call] = await shop.stage.calls(run_id)
    assert call.state is CallState.ANSWERED

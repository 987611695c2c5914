"""Limits over time when many are after the last of them at once, and what they cost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal

import psycopg
import pytest

from agent.database.pools import Database
from agent.domain.api_keys import Principal, Scope
from agent.domain.judgement import ToolTraits
from agent.domain.limits import Limit, LimitState, Use
from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.domain.request import ExecutionStatus, Verdict
from agent.domain.rules import Defaults
from agent.runtime.joint_writes import JointWrites
from agent.store.ids import new_id
from agent.store.limits import LimitRoom
from agent.usecases import calls as call_usecases
from agent.usecases import limits, requests, runs
from agent.usecases.calls import AttemptReport, CallToClaim, Claim, ClaimCalls, ClaimTerms, Outcome
from signoff.values import Action
from tests.integration import alone, invariants
from tests.integration.asking import (
    ADA,
    GRACE,
    ask,
    ballot,
    column,
    question,
    reviewer,
    rows,
    rule,
    start,
    write,
)
from tests.integration.test_races import deadlocks, sized
from tests.stress.rounds import counted

DAY = timedelta(days=1)
ACTION = Action("process_refund", "1", {"order_id": 0})
DONE = Outcome(ExecutionStatus.SUCCEEDED, "refunded")
BILLING = Principal(new_id(), "billing", frozenset({Scope.REQUEST}), None, None)


def use(name: str, most: str, amount: str = "1", then: Literal["ask", "deny"] = "ask") -> Use:
    limit = Limit(name, "process_refund", "args.amount", "all", DAY, Decimal(most), then)
    return Use(limit, "all", Decimal(amount))


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[Database]:
    """The same database as another process sees it."""
    async with Database(database_url, application_name="signoff other") as opened:
        yield opened


async def passed(db: Database) -> tuple[Any, Any]:
    """A run and its call, which policy lets run."""
    run_id, [call_id] = await start(db)
    assert await runs.pass_call(db, call_id, ACTION)
    return run_id, call_id


def to_claim(call: tuple[Any, Any], *uses: Use) -> CallToClaim:
    return CallToClaim(call[1], call[0], None, ClaimTerms("w", idempotent=False, uses=uses))


async def used(db: Database, *uses: Use) -> list[Decimal]:
    found = {each.limit: each.used for each in await limits.by_subject(db, [each.limit for each in uses])}
    return [found.get(each.limit.name, Decimal(0)) for each in uses]


@sized(2, 500)
async def test_twenty_at_once_take_the_last_unit_once(
    database: Database, other: Database, owner: psycopg.Connection[Any], rounds: int
) -> None:
    """Of twenty workers and programs, alone and in waves, on two processes, one gets the last unit of two limits."""
    dice = random.Random(7)
    workers = [(db, JointWrites(db, "w")) for db in (database, other)]
    calls = [await passed(database) for _ in range(18)]
    for n in counted(range(rounds)):
        # A tenth is left of the first, and one of the second; each takes both, in whatever order.
        both = [use(f"tenths {n}", "0.3", "0.1"), use(f"units {n}", "2")]
        taken = [use(f"tenths {n}", "0.3", "0.2"), use(f"units {n}", "2", "1")]
        assert (
            await limits.allow_use(database, BILLING, new_id(), taken, {"request": "earlier"}, agent="crm")
            == ()
        )

        async def claim(at: int, uses: list[Use]) -> Claim | None:
            db, joint = workers[at % 2]
            member = to_claim(calls[at], *dice.sample(uses, 2))
            return await (alone.alone(ClaimCalls(db), member) if at % 5 else joint.claims.join(member))

        async def tell(at: int, uses: list[Use]) -> bool:
            return not await limits.allow_use(
                workers[at][0], BILLING, new_id(), uses, {"request": "r"}, agent="crm"
            )

        claims, allowed = await asyncio.gather(
            asyncio.gather(*(claim(at, both) for at in range(len(calls)))),
            asyncio.gather(*(tell(at, both) for at in range(2))),
        )
        winners = [each for each in claims if each is not None]
        assert len(winners) + sum(allowed) == 1
        assert await used(database, *both) == [Decimal("0.3"), Decimal(2)]
        for each in winners:
            assert await alone.report(database, each, DONE)
            calls[[call for _, call in calls].index(each.call_id)] = await passed(database)
        await asyncio.gather(*(runs.pass_call(database, call_id, ACTION) for _, call_id in calls))
        await limits.settle_ended(database)
        assert await used(other, *both) == [Decimal("0.3"), Decimal(2)]
    assert deadlocks(owner) == 0
    assert await invariants.broken(database) == []


def test_what_a_call_has_taken_is_not_in_its_own_way() -> None:
    """Its own use is in no sum and counts up to its amount; a limit is held only by who has its lock."""
    mine, other = new_id(), new_id()
    own = {str(mine): "2", str(other): "1"}
    found: Any = SimpleNamespace(name="w", subject="all", used=Decimal(3), waiting=Decimal(0), own=own)
    same, more = use("w", "9", "2"), use("w", "9", "5")
    room = LimitRoom((), [found])
    assert [each.used for each in room.states(mine, [same])] == [Decimal(4)]
    assert (room.uncounted(mine, [same]), room.uncounted(mine, [more])) == ([], [more])
    for locked in (True, False):
        taken: Any = SimpleNamespace(name="w", subject="all", locked=locked)
        assert LimitRoom([taken], [found]).holds([same]) is locked


async def test_a_wave_claims_what_its_limit_leaves(database: Database) -> None:
    """Six calls in one wave share the room for two and the others are judged again; an approved call just counts."""
    calls = [await passed(database) for _ in range(6)]
    joint = JointWrites(database, "w")
    small = use("small", "2.5")
    claims = await asyncio.gather(*(joint.claims.join(to_claim(call, small)) for call in calls))
    assert [each is not None for each in claims] == [True, True, False, False, False, False]
    assert await column(database, "SELECT count(*) FROM tool_call WHERE state = 'new'") == [4]
    asked = await ask(database, limits=(LimitState(small, Decimal(2), Decimal(0)),))
    await alone.vote(database, ballot(asked, reviewer(GRACE)))
    assert await alone.claim(database, asked.call_id, worker="w", idempotent=False, uses=(small,))
    assert await used(database, small) == [Decimal(3)]
    first = next(each for each in claims if each is not None)
    await joint.reports.join(AttemptReport(first, Outcome(ExecutionStatus.FAILED, "no")))
    assert await used(database, small) == [Decimal(2)]
    assert await joint.claims.join(to_claim(await passed(database), use("small", "3"))) is not None


async def test_a_call_that_finds_no_room_is_one_judgement(database: Database) -> None:
    """What policy let run is on record with its first attempt; a call without room, with the question that follows."""
    policy = Policy(defaults=Defaults(unmatched="allow"))
    judged = policy.judge(ToolTraits("process_refund", "1"), ACTION, None, "refunds", None)
    (_, first), (run_id, second) = await passed(database), await passed(database)
    claim = partial(alone.claim, database, idempotent=True, uses=(use("last", "1"),), judgement=judged)
    assert await claim(first, worker="w") is not None
    assert await claim(second, worker="w") is None
    asked = replace(judged, verdict="ask", ruled=("run", None))
    await requests.open(database, question(run_id, second, rule(), judgement=asked))
    await write(database, "UPDATE execution SET lease_until = now()")
    assert await call_usecases.rescue(database) == 1
    assert await claim(first, worker="other") is not None
    judged_calls = await rows(database, "SELECT call_id, verdict FROM judgement ORDER BY id")
    assert judged_calls == [(first, "run"), (second, "ask")]


async def test_a_repeated_attempt_is_the_same_use(database: Database) -> None:
    """A call whose attempt was lost takes no more room, unless it would take more; a third time it is in doubt."""
    _, call_id = await passed(database)
    full = use("full", "1")
    for number in range(3):
        claimed = alone.claim(database, call_id, worker="w", idempotent=True, uses=(full,))
        assert await claimed is not None
        assert await used(database, full) == [Decimal(2 if number else 1)]
        if not number:  # more is used by now than there may be, with what people approved
            asked = await ask(database, limits=(LimitState(full, Decimal(1), Decimal(0)),))
            await alone.vote(database, ballot(asked, reviewer(GRACE)))
            assert await alone.claim(database, asked.call_id, worker="v", idempotent=False, uses=(full,))
        await write(
            database,
            "UPDATE execution SET lease_until = now() WHERE status = 'claimed' AND call_id = :call",
            call=call_id,
        )
        assert await call_usecases.rescue(database) == 1
    assert await column(database, "SELECT state::text FROM tool_call WHERE id = :id", id=call_id) == [
        "in_doubt"
    ]
    await limits.settle_ended(database)
    assert await used(database, full) == [Decimal(2)]


async def test_a_limit_is_its_name(database: Database) -> None:
    """Uses hold for a limit of that name whatever else changes, and for no other; old ones are forgotten."""
    call = await passed(database)
    assert await alone.alone(ClaimCalls(database), to_claim(call, use("one", "10", "7"))) is not None
    later = await passed(database)
    for changed in (use("one", "12", "6"), use("one", "8", "2", "deny")):
        assert await alone.alone(ClaimCalls(database), to_claim(later, changed)) is None
        assert await runs.pass_call(database, later[1], ACTION)
    assert await alone.alone(ClaimCalls(database), to_claim(later, use("two", "6", "6"))) is not None
    await write(database, "UPDATE limit_use SET settled = true, at = now() - interval '32 days'")
    await limits.settle_ended(database)
    assert await column(database, "SELECT count(*) FROM limit_use") == [0]


async def test_a_question_reserves_until_it_ends(database: Database) -> None:
    """Each end of a question that is no approval gives back what it reserved, in the view and after the sweep."""
    waiting = use("w", "5")
    state = (LimitState(waiting, Decimal(0), Decimal(0)),)
    for end in ("withdrawn", "rejected", "expired", "cancelled"):
        asked = await ask(database, limits=state)
        assert [each.waiting for each in await limits.by_subject(database, [waiting.limit])] == [Decimal(1)]
        if end == "withdrawn":
            await requests.withdraw(database, asked.request_id, GRACE, None)
        elif end == "rejected":
            await alone.vote(database, ballot(asked, reviewer(GRACE), Verdict.REJECT.value))
        elif end == "cancelled":
            await runs.cancel(database, asked.run_id, Standing(ADA))
        else:
            await write(database, "UPDATE approval_request SET expires_at = now() WHERE status = 'waiting'")
            await requests.expire_due(database)
        assert await limits.by_subject(database, [waiting.limit]) == []
    await limits.settle_ended(database)
    assert await column(database, "SELECT count(*) FROM limit_use") == [0]

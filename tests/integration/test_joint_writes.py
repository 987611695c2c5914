"""Claims, reports, leases and turns in waves: as true as alone, and eight cost little more than one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import text

from agent.database.errors import OutcomeUnknown
from agent.database.pools import Database
from agent.domain.errors import LeaseLost, NoRoom, NotFound
from agent.domain.limits import Limit, Use
from agent.domain.request import ExecutionStatus
from agent.domain.run import ProposedCall, Turn
from agent.runtime.joint_writes import JointWrites
from agent.store import pause as pause_store
from agent.store.concurrency import ConcurrencyLimit
from agent.usecases import calls as call_usecases
from agent.usecases import pause, requests, runs
from agent.usecases.calls import AttemptReport, CallToClaim, Claim, ClaimTerms, Outcome
from agent.usecases.runs import LeasedRun, MadeTurn
from signoff.values import Action
from tests.commit_cutter import CommitCutter, Cut
from tests.integration import alone, invariants
from tests.integration.asking import (
    GRACE,
    Asked,
    ask,
    asked_as,
    ballot,
    blocked,
    column,
    question,
    reviewer,
    rule,
    start,
)
from tests.wire_counter import WireCounter

Owner = psycopg.Connection[Any]
REFUNDED = Outcome(ExecutionStatus.SUCCEEDED, "refunded")


def to_claim(asked: Asked, terms: ClaimTerms | None = None) -> CallToClaim:
    """The call of a request that people have approved."""
    terms = terms or ClaimTerms("w", idempotent=False)
    return CallToClaim(asked.call_id, asked.run_id, asked.request_id, terms)


@dataclass
class Worker:
    """A process, as far as its waves go."""

    db: Database
    joint: JointWrites

    @classmethod
    def on(cls, db: Database) -> Worker:
        return cls(db, JointWrites(db, "w"))

    async def claim(self, ready: Sequence[Asked]) -> list[Claim]:
        """Claim all at once, and look up what is not known to be written, as an attempt does."""
        return await asyncio.gather(*map(self._claim, ready))

    async def _claim(self, asked: Asked) -> Claim:
        call = to_claim(asked)
        found: Claim | None
        try:
            found = await self.joint.claims.join(call)
        except OutcomeUnknown:
            try:
                found = await call_usecases.find_claim(
                    self.db, asked.run_id, asked.call_id, call.terms.execution_id
                )
            except NotFound:
                found = await self.joint.claims.join(call)
        assert found is not None
        return found

    async def report(self, claims: Sequence[Claim]) -> list[bool]:
        """Report all at once, and again what is not known to be written."""
        return await asyncio.gather(*map(self._report, claims))

    async def _report(self, claim: Claim) -> bool:
        try:
            return await self.joint.reports.join(AttemptReport(claim, REFUNDED))
        except OutcomeUnknown:
            return await self.joint.reports.join(AttemptReport(claim, REFUNDED))

    async def lease(self, ready: Sequence[Asked]) -> list[LeasedRun]:
        """Lease the runs of all."""
        found = await asyncio.gather(*(self.joint.lease(each.run_id) for each in ready))
        leased = [each for each in found if each is not None]
        assert len(leased) == len(ready)
        return leased

    async def answer(self, leased: Sequence[LeasedRun]) -> list[LeaseLost | None]:
        """Have all agents give their answer at once, and again what is not known to be written."""
        return await asyncio.gather(*map(self._answer, leased))

    async def _answer(self, leased: LeasedRun) -> LeaseLost | None:
        turn = Turn("Done.", (), 5, leased.heard)
        try:
            await self.joint.turns.join(MadeTurn(leased.lease, turn))
        except OutcomeUnknown:
            try:
                await self.joint.turns.join(MadeTurn(leased.lease, turn))
            except LeaseLost as lost:
                return lost
        return None


async def ready(db: Database, number: int) -> list[Asked]:
    """Calls of so many runs that people have approved."""
    waiting = [await ask(db) for _ in range(number)]
    for each in waiting:
        await alone.vote(db, ballot(each, reviewer(GRACE)))
    return waiting


@pytest.fixture
async def counter(database_url: str, tmp_path: Path) -> AsyncIterator[WireCounter]:
    """A way to the test's database on which statements and round trips are counted."""
    async with WireCounter(database_url, tmp_path).running() as opened:
        yield opened


@pytest.mark.parametrize("number", [1, 8])
async def test_eight_cost_little_more_than_one(database: Database, counter: WireCounter, number: int) -> None:
    """Each step of eight calls is one transaction with as many statements and round trips as that of one call."""
    calls = await ready(database, number)
    costs: dict[str, tuple[int, int, int]] = {}

    def count(step: str) -> None:
        costs[step] = len(counter.work), counter.round_trips, counter.commits
        counter.reset()

    async with Database(counter.url) as db:
        await db.open()
        worker = Worker.on(db)
        counter.reset()
        claims = await worker.claim(calls)
        count("claim")
        await worker.report(claims)
        count("report")
        leased = await worker.lease(calls)
        count("lease")
        await worker.answer(leased)
        count("turn")
    assert costs == {"claim": (6, 2, 1), "report": (8, 2, 1), "lease": (4, 2, 1), "turn": (7, 2, 1)}
    assert await column(database, "SELECT DISTINCT status::text FROM agent_run") == ["completed"]
    assert await invariants.broken(database) == []


CALLS = 12
"""In one wave."""


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize("step", ["claim", "report", "turn"])
async def test_a_wave_whose_commit_is_not_answered(
    database: Database, database_url: str, tmp_path: Path, step: str, cut: Cut
) -> None:
    """Of many calls in one wave each is claimed, reported and answered once, and none is in doubt."""
    calls = await ready(database, CALLS)
    async with CommitCutter(database_url, tmp_path).running() as cutter, Database(cutter.url) as db:
        worker = Worker.on(db)
        claims = await _cut(cutter, cut if step == "claim" else None, worker.claim(calls))
        assert await _cut(cutter, cut if step == "report" else None, worker.report(claims)) == [True] * CALLS
        leased = await worker.lease(calls)
        lost = await _cut(cutter, cut if step == "turn" else None, worker.answer(leased))
        assert cutter.cuts == 1
    written = step == "turn" and cut == "after"
    assert [each is not None for each in lost] == [written] * CALLS
    attempts = "SELECT call_id::text || status || attempt FROM execution ORDER BY 1"
    assert await column(database, attempts) == sorted(f"{each.call_id}succeeded1" for each in calls)
    assert await column(database, "SELECT count(*) FROM run_message WHERE text = 'Done.'") == [CALLS]
    assert await invariants.broken(database) == []


async def _cut(cutter: CommitCutter, cut: Cut | None, work: Any) -> Any:
    if cut is not None:
        cutter.cut_next(cut)
    return await work


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_lease_whose_commit_is_not_answered_holds_up_no_run(
    database: Database, database_url: str, tmp_path: Path, cut: Cut
) -> None:
    """Nobody works under such a lease, so another worker may take the run at once; what another one holds stays."""
    calls = await ready(database, 2)
    await Worker.on(database).report(await Worker.on(database).claim(calls))
    free, leased = calls
    assert await alone.lease(database, leased.run_id, "other") is not None
    async with CommitCutter(database_url, tmp_path).running() as cutter, Database(cutter.url) as db:
        for each in calls:
            cutter.cut_next(cut)
            with pytest.raises(OutcomeUnknown):
                await Worker.on(db).joint.lease(each.run_id)
    assert await alone.lease(database, free.run_id, "other") is not None
    assert await alone.lease(database, leased.run_id, "third") is None


_POISON = {
    "claim": "BEFORE INSERT ON execution FOR EACH ROW WHEN (NEW.call_id = '{call}')",
    "report": "BEFORE UPDATE ON execution FOR EACH ROW WHEN (NEW.call_id = '{call}')",
    "lease": "BEFORE UPDATE OF lease_epoch ON agent_run FOR EACH ROW WHEN (NEW.id = '{run}')",
    "turn": "BEFORE INSERT ON run_message FOR EACH ROW WHEN (NEW.run_id = '{run}')",
}


@pytest.mark.parametrize("step", list(_POISON))
async def test_a_poisonous_row_fails_alone(database: Database, owner: Owner, step: str) -> None:
    """One of eight that the database refuses fails, and the others are written."""
    calls = await ready(database, 8)
    bad = calls[3]
    worker = Worker.on(database)
    steps: dict[str, Callable[[Any], Awaitable[Any]]] = {
        "claim": worker.claim,
        "report": worker.report,
        "lease": worker.lease,
        "turn": worker.answer,
    }
    given: Any = calls
    for name in list(steps)[: list(steps).index(step)]:
        given = await steps[name](calls if name == "lease" else given)
    owner.execute("SET search_path = signoff")
    owner.execute(
        "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''poison''; END'"
    )
    where = _POISON[step].format(call=bad.call_id, run=bad.run_id)
    owner.execute(f"CREATE TRIGGER poison {where} EXECUTE FUNCTION poison()".encode())
    each = calls if step == "lease" else given
    results = await asyncio.gather(*(steps[step]([one]) for one in each), return_exceptions=True)
    failed = [n for n, result in enumerate(results) if isinstance(result, Exception)]
    assert (failed, str(results[3]).splitlines()[0]) == ([3], "poison")
    assert not [result for n, result in enumerate(results) if n != 3 and isinstance(result, BaseException)]


@pytest.mark.parametrize("step", ["claim", "report"])
@pytest.mark.parametrize("table", ["agent_run", "tool_call", "audit_head"])
async def test_what_somebody_holds_delays_no_other(database: Database, table: str, step: str) -> None:
    """A member whose run, call or chain is locked waits alone, and is written when that is free."""
    calls = await ready(database, 4)
    held = calls[1]
    worker = Worker.on(database)
    given: Any = await worker.claim(calls) if step == "report" else calls
    work = worker.report if step == "report" else worker.claim
    key = {"agent_run": held.run_id, "tool_call": held.call_id, "audit_head": f"request:{held.request_id}"}
    async with database.transaction() as tx:
        await tx.execute(text(_HOLD[table]), {"key": key[table]})
        tasks = [asyncio.create_task(work([each])) for each in given]
        await asyncio.gather(*(task for n, task in enumerate(tasks) if n != 1))
        assert not tasks[1].done()
    await tasks[1]
    assert len(await column(database, "SELECT id FROM execution")) == 4
    assert await invariants.broken(database) == []


_HOLD = {
    "agent_run": "SELECT 1 FROM agent_run WHERE id = :key FOR UPDATE",
    "tool_call": "SELECT 1 FROM tool_call WHERE id = :key FOR UPDATE",
    "audit_head": "SELECT 1 FROM audit_head WHERE subject = :key FOR UPDATE",
}


async def test_several_calls_of_one_run_at_once(database: Database) -> None:
    """The run receives all its calls' answers when the last one is answered, and only once."""
    run_id, call_ids = await start(database, calls=6)
    calls = [await _asked(database, run_id, call_id, n) for n, call_id in enumerate(call_ids)]
    for each in calls:
        await alone.vote(database, ballot(each, reviewer(GRACE)))
    worker = Worker.on(database)
    assert await worker.report(await worker.claim(calls)) == [True] * 6
    assert await column(database, "SELECT awaiting_calls || ' ' || inputs - heard FROM agent_run") == ["0 1"]
    (leased,) = await worker.lease([calls[0]])
    assert [each.answer.text for each in leased.calls if each.answer] == ["refunded"] * 6
    assert await invariants.broken(database) == []


async def _asked(db: Database, run_id: UUID, call_id: UUID, order: int) -> Asked:
    opened = await requests.open(db, question(run_id, call_id, rule(), order=order))
    return await asked_as(db, opened.request_id, call_id, run_id)


async def test_when_a_pause_has_returned_no_wave_begins_anything(database: Database) -> None:
    """Waves race with the switch: what they claim is written before the pause returns, or not at all."""
    calls = await ready(database, 8)
    joint = JointWrites(database, "w")
    terms = [to_claim(each) for each in calls]
    claims = [asyncio.create_task(joint.claims.join(each)) for each in terms]
    await pause.pause(database, None, by="cli:ada")
    before = await column(database, "SELECT count(*) FROM execution")
    taken = [each for each in await asyncio.gather(*claims) if each is not None]
    assert before == await column(database, "SELECT count(*) FROM execution") == [len(taken)]
    assert await joint.claims.join(terms[0]) is None


async def test_a_wave_claims_what_its_limits_leave(database: Database) -> None:
    """Of six calls in one wave, with one of that tool claimed already, two begin where three may; the rest stay ready.

    An outcome makes room for one more, and so does the rescue of an attempt whose worker is gone.
    """
    calls = await ready(database, 7)
    joint = JointWrites(database, "w")

    async def claim(asked: Asked, most: int = 3) -> Claim | None:
        limits = (ConcurrencyLimit("refunds", "process_refund", most), ConcurrencyLimit("refunds", None, 5))
        terms = ClaimTerms("w", idempotent=False, concurrency=limits)
        try:
            return await joint.claims.join(to_claim(asked, terms))
        except NoRoom:
            return None

    first = await claim(calls[0])
    assert first is not None
    claims = await asyncio.gather(*map(claim, calls[1:]))
    assert [each is not None for each in claims] == [True, True, False, False, False, False]
    ready_now = "SELECT count(*) FROM tool_call WHERE state = 'ready'"
    assert await column(database, ready_now) == [4]
    await joint.reports.join(AttemptReport(first, REFUNDED))
    assert await claim(calls[3]) is not None
    assert await claim(calls[4]) is None
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE execution SET lease_until = now() WHERE status = 'claimed'"))
    await call_usecases.rescue(database)
    assert await claim(calls[4]) is not None
    assert await invariants.broken(database) == []


@pytest.mark.parametrize("number", [1, 8])
async def test_what_a_limit_costs(database: Database, counter: WireCounter, number: int) -> None:
    """A claim within a limit takes its lock and counts, in the same round trip: two statements more, for any number."""
    calls = await ready(database, number)
    async with Database(counter.url) as db:
        await db.open()
        joint = JointWrites(db, "w")
        counter.reset()
        terms = [
            ClaimTerms("w", idempotent=False, concurrency=(ConcurrencyLimit("refunds", None, 8),))
            for _ in calls
        ]
        await asyncio.gather(*(joint.claims.join(to_claim(c, t)) for c, t in zip(calls, terms, strict=True)))
        assert (len(counter.work), counter.round_trips, counter.commits) == (11, 2, 1)


@pytest.mark.parametrize("number", [1, 8])
async def test_what_limits_over_time_cost(database: Database, counter: WireCounter, number: int) -> None:
    """Claims within limits lock and add up in the same round trip, and write their uses: three statements more."""
    proposed = [await start(database) for _ in range(number)]
    action = Action("process_refund", "1", {"order_id": 0})
    assert all([await runs.pass_call(database, call, action) for _, [call] in proposed])
    uses = tuple(
        Use(Limit(name, "process_refund", "count", "all", timedelta(days=1), Decimal(99)), "all", Decimal(1))
        for name in ("b", "a")
    )
    async with Database(counter.url) as db:
        await db.open()
        joint = JointWrites(db, "w")
        counter.reset()
        terms = [ClaimTerms("w", idempotent=False, uses=uses) for _ in proposed]
        members = [
            CallToClaim(call, run, None, each) for (run, [call]), each in zip(proposed, terms, strict=True)
        ]
        claims = await asyncio.gather(*map(joint.claims.join, members))
        assert None not in claims
        assert (len(counter.work), counter.round_trips, counter.commits) == (10, 2, 1)


async def test_a_turn_that_proposes_calls(database: Database) -> None:
    """Turns of several runs in one wave propose each its own calls, in their order."""
    calls = await ready(database, 3)
    worker = Worker.on(database)
    await worker.report(await worker.claim(calls))
    leased = await worker.lease(calls)
    turns = [
        Turn(
            f"Turn {n}.", tuple(ProposedCall(f"c{i}", f"tool_{n}_{i}", "{}") for i in range(n)), 5, each.heard
        )
        for n, each in enumerate(leased)
    ]
    await asyncio.gather(
        *(
            worker.joint.turns.join(MadeTurn(each.lease, turn))
            for each, turn in zip(leased, turns, strict=True)
        )
    )
    proposed = "SELECT tool FROM tool_call WHERE turn = 2 ORDER BY run_id, index"
    assert await column(database, proposed) == ["tool_1_0", "tool_2_0", "tool_2_1"]
    assert await invariants.broken(database) == []


async def test_a_claim_of_a_service_that_stops_is_not_left_in_doubt(database: Database, owner: Owner) -> None:
    """The worker is cancelled while the claim is written: it is reported that nothing ran."""
    (call,) = await ready(database, 1)
    joint = JointWrites(database, "w")
    async with database.transaction() as tx:
        await pause_store.lock_switch(tx)
        await _cancelled(
            owner,
            joint.claims.join(to_claim(call)),
        )
    await joint.finish()
    ended = "SELECT answer_kind || ': ' || answer FROM tool_call"
    assert await column(database, ended) == ["nothing_done: the service stopped before it began"]
    assert await invariants.broken(database) == []


async def test_a_lease_of_a_service_that_stops_is_given_back(database: Database, owner: Owner) -> None:
    """The worker is cancelled while the lease is taken: another worker can take it at once."""
    (call,) = await ready(database, 1)
    joint = JointWrites(database, "w")
    worker = Worker(database, joint)
    await worker.report(await worker.claim([call]))
    async with database.transaction() as tx:
        await tx.execute(text("LOCK TABLE pause IN ACCESS EXCLUSIVE MODE"))
        await _cancelled(owner, joint.lease(call.run_id))
    await joint.finish()
    assert await alone.lease(database, call.run_id, "another") is not None


async def _cancelled(owner: Owner, work: Coroutine[Any, Any, object]) -> None:
    """Cancel this once its transaction waits for a lock."""
    task = asyncio.create_task(work)
    await blocked(owner, 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

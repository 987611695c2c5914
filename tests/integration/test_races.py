"""What happens at the same moment: people, deadlines, workers and the database's own locks, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest

from agent.database.address import Address
from agent.database.pools import Database
from agent.domain.errors import LeaseLost, Refusal, Refused
from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.domain.request import ExecutionStatus, RequestStatus
from agent.domain.run import AnswerKind, CallAnswer, ProposedCall, Turn
from agent.usecases import calls as call_usecases
from agent.usecases import policy as policies
from agent.usecases import requests, runs
from agent.usecases.calls import Outcome
from signoff.errors import Conflict
from signoff.values import Action
from tests.integration import alone, invariants
from tests.integration.asking import (
    ADA,
    GRACE,
    LINUS,
    Asked,
    ask,
    asked_as,
    ballot,
    blocked,
    claim_approved,
    column,
    programs_question,
    question,
    reviewer,
    rows,
    rule,
    start,
    write,
)
from tests.integration.crowd import CROWD, Crowd
from tests.integration.on_record import put_terms_on_record
from tests.stress.budget import full
from tests.stress.rounds import counted

DONE = Outcome(ExecutionStatus.SUCCEEDED, "refunded")


def sized(quick: int, many: int) -> pytest.MarkDecorator:
    """A quick slice in the normal tests, the full size among the stress tests."""
    return pytest.mark.parametrize("rounds", [quick, pytest.param(full(many), marks=pytest.mark.stress)])


@pytest.fixture
def dice() -> random.Random:
    """Chance with a seed that is printed with a failure."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it with a failure
    return random.Random(seed)


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[Database]:
    """The same database as another process sees it."""
    async with Database(database_url, application_name="signoff other") as opened:
        yield opened


async def until(moment: datetime) -> None:
    """Wait for a moment of the clock that database and test share."""
    await asyncio.sleep(max(0.0, (moment - datetime.now(UTC)).total_seconds()))


def deadlocks(owner: psycopg.Connection[Any]) -> int:
    """How often the server had to break a circle of this database's locks."""
    row = owner.execute(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone()
    return int(row[0]) if row else -1


# --- people and deadlines ------------------------------------------------------------------------------------


@sized(5, 1000)
async def test_ten_people_on_two_processes_make_one_decision(
    database: Database, other: Database, rounds: int
) -> None:
    """Of ten mixed clicks at once on two processes exactly one decides, and nine read who did."""
    for _ in counted(range(rounds)):
        asked = await ask(database)
        results = await asyncio.gather(
            *(
                alone.vote(db, ballot(asked, who, verdict))
                for who, db, verdict in zip(
                    CROWD, itertools.cycle((database, other)), ["approve", "reject"] * 5, strict=False
                )
            ),
            return_exceptions=True,
        )
        [(decider, outcome)] = await rows(
            database,
            "SELECT user_id, outcome::text FROM decision WHERE request_id = :id",
            id=asked.request_id,
        )
        refusals = [each for each in results if isinstance(each, Refused)]
        assert [type(each) for each in results if not isinstance(each, Refused)] == [requests.VoteOutcome]
        assert {each.code for each in refusals} == {Refusal.ALREADY_DECIDED}
        assert all(f"{outcome} by {ADA.team_id}/{decider}" in each.sentence for each in refusals)
    assert await invariants.broken(database) == []


@sized(12, 1000)
async def test_a_click_at_the_deadline_decides_or_is_late_and_never_both(
    database: Database, other: Database, rounds: int, dice: random.Random
) -> None:
    """Click and expiry within ±5 ms of the deadline: one outcome, by the database's clock."""
    run_id, calls = await start(database, calls=rounds)
    outcomes: list[str] = []
    for order, call_id in enumerate(counted(calls)):
        opened = await requests.open(database, question(run_id, call_id, rule(), order=order))
        asked = await asked_as(database, opened.request_id, call_id, run_id)
        [deadline] = await write(
            database,
            "UPDATE approval_request SET expires_at = clock_timestamp() + interval '60 ms' WHERE id = :id"
            " RETURNING expires_at",
            id=asked.request_id,
        )
        await put_terms_on_record(database)
        click, sweep = (dice.uniform(-0.005, 0.005) for _ in range(2))

        async def clicked(asked: Asked = asked, at: float = deadline.timestamp() + click) -> object:
            await until(datetime.fromtimestamp(at, UTC))
            return await alone.vote(database, ballot(asked, reviewer(GRACE)))

        async def swept(at: float = deadline.timestamp() + sweep) -> int:
            await until(datetime.fromtimestamp(at, UTC))
            return await requests.expire_due(other)

        voted, _ = await asyncio.gather(clicked(), swept(), return_exceptions=True)
        await until(deadline)
        await requests.expire_due(other)
        [(outcome, in_time)] = await rows(
            database,
            "SELECT outcome::text, d.decided_at < r.expires_at FROM decision AS d"
            " JOIN approval_request AS r ON r.id = d.request_id WHERE r.id = :id",
            id=asked.request_id,
        )
        if isinstance(voted, Refused):
            assert (voted.code, outcome, in_time) == (Refusal.EXPIRED, "expired", False)
        else:
            assert isinstance(voted, requests.VoteOutcome)
            assert (voted.status, outcome, in_time) == (RequestStatus.APPROVED, "approved", True)
        outcomes.append(outcome)
    if rounds >= 1000:  # a busy machine may be late in every one of a few rounds
        assert set(outcomes) == {"approved", "expired"}, "the rounds must fall on both sides of the deadline"
    assert await invariants.broken(database) == []


@sized(8, 500)
async def test_a_click_and_a_withdrawal_at_once_have_one_outcome(
    database: Database, other: Database, rounds: int
) -> None:
    """The first decides; the other reads it."""
    for _ in counted(range(rounds)):
        asked = await ask(database)
        voted, withdrawn = await asyncio.gather(
            alone.vote(database, ballot(asked, reviewer(GRACE))),
            requests.withdraw(other, asked.request_id, ADA, "not needed"),
            return_exceptions=True,
        )
        [outcome] = await column(
            database, "SELECT outcome::text FROM decision WHERE request_id = :id", id=asked.request_id
        )
        if isinstance(voted, Refused):
            assert (voted.code, withdrawn, outcome) == (Refusal.WITHDRAWN, True, "cancelled")
        else:
            assert (withdrawn, outcome) == (False, "approved")
    assert await invariants.broken(database) == []


@sized(100, 10_000)
async def test_three_schedulers_expire_each_request_once(
    database: Database, other: Database, rounds: int
) -> None:
    """However many requests are due and however many sweeps run, each expires once and has one event."""
    for first in counted(range(0, rounds, 100)):
        run_id, calls = await start(database, calls=100)
        await asyncio.gather(
            *(
                requests.open(database, question(run_id, call_id, rule(), order=first + n))
                for n, call_id in enumerate(calls)
            )
        )
    await write(database, "UPDATE approval_request SET expires_at = created_at + interval '1 microsecond'")
    await put_terms_on_record(database)
    counts = await asyncio.gather(*(requests.expire_due(db) for db in (database, other, database)))
    assert sum(counts) == rounds
    assert await requests.expire_due(database) == 0
    events = "SELECT count(*) FROM audit_event WHERE event = 'request.expired'"
    assert await column(database, events) == [rounds]
    assert await invariants.broken(database) == []


@pytest.mark.parametrize("by_call", [True, False], ids=["call", "client id"])
async def test_twenty_openings_are_one_request(database: Database, other: Database, by_call: bool) -> None:
    """Opened twenty times at once on two processes it is one request with one card; other content is refused."""
    run_id, calls = await start(database)
    asked = partial(programs_question, principal="key-7", client_id="order 7")
    new = question(run_id, calls[0], rule()) if by_call else asked(rule())
    opened = await asyncio.gather(
        *(
            requests.open(db, new)
            for db, _ in zip(itertools.cycle((database, other)), range(20), strict=False)
        )
    )
    assert len({each.request_id for each in opened}) == 1
    assert sum(each.created for each in opened) == 1
    assert await column(database, "SELECT count(*) FROM delivery WHERE kind = 'card'") == [1]
    with pytest.raises(Conflict):
        await requests.open(database, replace(new, action=Action("process_refund", "1", {"order_id": 8})))
    if not by_call:
        foreign = replace(new, principal="key-8")
        assert (await requests.open(database, foreign)).created, "another principal's ids are its own"
    assert await invariants.broken(database) == []


# --- workers -------------------------------------------------------------------------------------------------


@sized(5, 200)
async def test_ten_workers_claim_a_call_once(database: Database, other: Database, rounds: int) -> None:
    """An approved call is claimed by one of ten workers on two processes."""
    for _ in counted(range(rounds)):
        asked = await ask(database)
        await alone.vote(database, ballot(asked, reviewer(GRACE)))
        claims = await asyncio.gather(
            *(
                alone.claim(db, asked.call_id, worker=f"w{n}", idempotent=False)
                for n, db in zip(range(10), itertools.cycle((database, other)), strict=False)
            )
        )
        [claim] = [each for each in claims if each is not None]
        assert await alone.report(database, claim, DONE)
    assert await invariants.broken(database) == []


@sized(5, 200)
async def test_ten_workers_lease_a_run_once(database: Database, other: Database, rounds: int) -> None:
    """A run with new input is leased by one of ten workers."""
    run_id, calls = await start(database)
    await runs.refuse_call(database, calls[0], CallAnswer(AnswerKind.DENIED, "no"))
    await runs.answer_call(database, calls[0])
    for n in counted(range(rounds)):
        leases = await asyncio.gather(
            *(
                alone.lease(db, run_id, f"w{worker}")
                for worker, db in zip(range(10), itertools.cycle((database, other)), strict=False)
            )
        )
        [leased] = [each for each in leases if each is not None]
        await alone.record_turn(database, leased.lease, Turn(f"turn {n}", (), 1, leased.heard))
        assert await alone.lease(other, run_id, "late") is None
        await runs.add_message(database, run_id, "and now?", ADA, f"event-{n}")
    assert await column(database, "SELECT turn FROM agent_run") == [rounds + 1]


async def test_a_worker_that_lost_its_lease_writes_nothing(database: Database, other: Database) -> None:
    """Taken over, or done already: neither its turn nor its failure changes a row of the run."""
    run_id, _ = await start(database, calls=0)
    await runs.add_message(database, run_id, "go on", ADA, None)
    lost = await alone.lease(database, run_id, "slow")
    assert lost is not None
    await write(database, "UPDATE agent_run SET lease_until = clock_timestamp()")
    taken = await alone.lease(other, run_id, "quick")
    assert taken is not None
    await assert_fenced(database, lost)
    await alone.record_turn(other, taken.lease, Turn("done", (), 3, taken.heard))
    await assert_fenced(database, lost)
    await assert_fenced(other, taken)


async def assert_fenced(db: Database, leased: runs.LeasedRun) -> None:
    before = await everything(db)
    turn = Turn("late words", (ProposedCall("c", "process_refund", "{}"),), 9, leased.heard)
    with pytest.raises(LeaseLost):
        await alone.record_turn(db, leased.lease, turn)
    with pytest.raises(LeaseLost):
        await runs.record_model_failure(db, leased.lease, "late failure", None)
    await call_usecases.renew_leases(db, leased.lease.worker, [], [leased.lease])
    assert await everything(db) == before


async def everything(db: Database) -> list[tuple[Any, ...]]:
    """All rows that a turn could touch, with a live lease rounded to whether there is one."""
    return await rows(
        db,
        "SELECT to_jsonb(a) - 'lease_until' || jsonb_build_object('leased', a.lease_until IS NOT NULL),"
        " (SELECT jsonb_agg(m ORDER BY seq) FROM run_message AS m), (SELECT count(*) FROM tool_call),"
        " (SELECT count(*) FROM audit_event), (SELECT count(*) FROM delivery) FROM agent_run AS a",
    )


async def test_a_report_sent_twice_is_one(database: Database) -> None:
    """A report whose COMMIT was not acknowledged is sent again: no late result, no second event."""
    asked = await ask(database)
    claim = await claim_approved(database, asked)
    assert [await alone.report(database, claim, DONE) for _ in range(2)] == [True, True]
    assert not await alone.report(database, claim, Outcome(ExecutionStatus.FAILED, "or not"))
    assert await column(database, "SELECT late_result FROM execution") == ["failed: or not"]
    assert await invariants.broken(database) == []


async def test_first_starts_agree_on_one_policy(database: Database, other: Database) -> None:
    """Of processes that start at once on an empty database, one puts its policy in force."""
    starts = [policies.put_first(db, Policy(), by="worker") for db in (database, other) for _ in range(5)]
    assert {each.epoch for each in await asyncio.gather(*starts)} == {1}
    assert await column(database, "SELECT count(*) FROM audit_event WHERE event = 'policy.applied'") == [1]


# --- votes that come back, runs that stay stopped ------------------------------------------------------------


async def test_a_vote_that_counts_again_completes_the_quorum(database: Database) -> None:
    """A reviewer who had lost the right when the second vote came completes the quorum by the same word again."""
    asked = await ask(database, rule(approvals_required=2))
    await alone.vote(database, ballot(asked, reviewer(GRACE)))
    away = Standing(GRACE, frozenset())
    assert (await alone.vote(database, ballot(asked, reviewer(LINUS), others=[away]))).needed == 1
    with pytest.raises(Refused) as caught:
        await alone.vote(database, ballot(asked, away, others=[reviewer(LINUS)]))
    assert caught.value.code is Refusal.NOT_A_REVIEWER
    voted = await alone.vote(database, ballot(asked, reviewer(GRACE), others=[reviewer(LINUS)]))
    assert voted.status is RequestStatus.APPROVED
    assert await column(database, "SELECT count(*) FROM vote") == [2]
    assert await invariants.broken(database) == []


async def test_the_same_word_after_the_deadline_is_late(database: Database) -> None:
    """Repeating one's vote on an overdue request says that it is overdue, not that it waits."""
    asked = await ask(database, rule(approvals_required=2))
    first = await alone.vote(database, ballot(asked, reviewer(GRACE)))
    again = await alone.vote(database, ballot(asked, reviewer(GRACE)))
    assert (again.approvals, again.needed, again.repeated) == (first.approvals, first.needed, True)
    await write(database, "UPDATE approval_request SET expires_at = clock_timestamp()")
    with pytest.raises(Refused) as caught:
        await alone.vote(database, ballot(asked, reviewer(GRACE)))
    assert caught.value.code is Refusal.EXPIRED


async def test_a_stopped_run_is_not_taken_up_by_another_calls_outcome(database: Database) -> None:
    """After a rejection that stops, the result of a call that still ran is noted but wakes nobody."""
    run_id, (stopping, running) = await start(database, calls=2)
    asked = []
    for order, (call_id, terms) in enumerate(((stopping, rule(on_reject="stop")), (running, rule()))):
        new = question(run_id, call_id, terms, order=order, background=order == 1)
        opened = await requests.open(database, new)
        asked.append(await asked_as(database, opened.request_id, call_id, run_id))
    await alone.vote(database, ballot(asked[1], reviewer(GRACE)))
    claim = await alone.claim(database, running, worker="w", idempotent=False)
    assert claim is not None
    await alone.vote(database, ballot(asked[0], reviewer(GRACE), "reject"))
    assert await runs.answer_call(database, stopping) is not None
    assert await alone.report(database, claim, DONE)
    assert await column(database, "SELECT status::text FROM agent_run") == ["denied"]
    assert await alone.lease(database, run_id, "w") is None
    assert await column(database, "SELECT role::text FROM run_message ORDER BY seq DESC LIMIT 1") == ["note"]
    await runs.add_message(database, run_id, "go on, please", ADA, None)
    assert await alone.lease(database, run_id, "w") is not None
    assert await invariants.broken(database) == []


async def test_nobody_is_asked_for_a_run_that_has_ended(database: Database) -> None:
    """A call that is judged when its run has just ended is neither asked about nor run."""
    run_id, calls = await start(database, calls=3)
    await requests.open(database, question(run_id, calls[0], rule()))
    await runs.add_message(database, run_id, "hm", ADA, None)
    leased = await alone.lease(database, run_id, "w")
    assert leased is not None
    await runs.record_model_failure(database, leased.lease, "no model", None)
    assert await column(database, "SELECT status::text FROM approval_request") == ["cancelled"]
    with pytest.raises(Conflict):
        await requests.open(database, question(run_id, calls[1], rule(), order=1))
    assert not await runs.pass_call(database, calls[2], Action("process_refund", "1", {"order_id": 2}))
    assert await invariants.broken(database) == []


# --- locks ---------------------------------------------------------------------------------------------------


async def held_head(url: str, request_id: UUID) -> psycopg.AsyncConnection[Any]:
    """Somebody who holds the end of a request's chain, so that others queue up behind it."""
    holder = await psycopg.AsyncConnection.connect(Address.read(url).conninfo("holder"))
    await holder.execute(
        "SELECT 1 FROM audit_head WHERE subject = %s FOR NO KEY UPDATE", [f"request:{request_id}"]
    )
    return holder


async def test_a_late_click_and_asking_anew_do_not_wait_for_each_other(
    database: Database, database_url: str, owner: psycopg.Connection[Any]
) -> None:
    """Asking again locks the approved request before its call, as a click does."""
    asked = await ask(database)
    await alone.vote(database, ballot(asked, reviewer(GRACE)))
    anew = question(asked.run_id, asked.call_id, rule(), client_id=f"{asked.call_id}:2")
    async with await held_head(database_url, asked.request_id) as holder:
        asking = asyncio.create_task(requests.void_and_ask(database, asked.call_id, asked.request_id, anew))
        await blocked(owner, 1)
        late = asyncio.create_task(alone.vote(database, ballot(asked, reviewer(LINUS))))
        await blocked(owner, 2)
        await holder.rollback()
        opened, refused = await asyncio.gather(asking, late, return_exceptions=True)
    assert isinstance(opened, requests.OpenOutcome)
    assert isinstance(refused, Refused)
    assert deadlocks(owner) == 0
    assert await invariants.broken(database) == []


async def test_a_late_result_belongs_to_the_question_that_allowed_it(
    database: Database, database_url: str, owner: psycopg.Connection[Any]
) -> None:
    """A result that arrives while its call is asked again belongs to the first request; no vote deadlocks with it."""
    asked = await ask(database)
    claim = await claim_approved(database, asked, worker="gone", idempotent=True)
    await write(database, "UPDATE execution SET lease_until = clock_timestamp()")
    assert await call_usecases.rescue(database) == 1
    anew = question(asked.run_id, asked.call_id, rule(), client_id=f"{asked.call_id}:2")
    opened = await requests.void_and_ask(database, asked.call_id, asked.request_id, anew)
    second = await asked_as(database, opened.request_id, asked.call_id, asked.run_id)
    async with await held_head(database_url, opened.request_id) as holder:
        voting = asyncio.create_task(alone.vote(database, ballot(second, reviewer(LINUS))))
        await blocked(owner, 1)
        reporting = asyncio.create_task(alone.report(database, claim, DONE))
        await blocked(owner, 2)
        await holder.rollback()
        assert (await voting).status is RequestStatus.APPROVED
        assert not await reporting
    subject = "SELECT subject FROM audit_event WHERE event = 'execution.late_result'"
    assert await column(database, subject) == [f"request:{asked.request_id}"]
    assert deadlocks(owner) == 0
    assert await invariants.broken(database) == []


@sized(1, 60)
async def test_everything_at_once_neither_deadlocks_nor_breaks_a_rule(
    database: Database, other: Database, owner: psycopg.Connection[Any], rounds: int, dice: random.Random
) -> None:
    """Eight workers and people do everything on the same few runs for some seconds, and every rule still holds."""
    crowd = Crowd(dice, (database, other))
    parent, _ = await start(database)
    for _ in range(2):
        await start(database, calls=3, parent_run_id=parent)
    deadline = time.monotonic() + rounds
    await asyncio.gather(*(crowd.work(n, deadline) for n in range(8)))
    assert deadlocks(owner) == 0
    await put_terms_on_record(database)  # the crowd brought deadlines forward
    assert await invariants.broken(database) == []
    if rounds >= 60:
        assert crowd.done == set(crowd.acts()), "some act never got anything done"


async def test_many_open_at_once_under_a_rule_that_is_new(database: Database) -> None:
    """All are opened, and the rule is stored once; another rule is another row."""
    for number, terms in enumerate((rule(), rule(risk="high")), 1):
        asked = await asyncio.gather(*(ask(database, terms) for _ in range(8)))
        assert len({each.request_id for each in asked}) == 8
        assert await column(database, "SELECT count(*) FROM rule") == [number]
    named = "SELECT count(*) FROM approval_request JOIN rule ON digest = rule_digest GROUP BY digest"
    assert await column(database, named) == [8, 8]

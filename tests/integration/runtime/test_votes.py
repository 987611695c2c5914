"""The votes of one process: those that come together are counted together, and none is late for its deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import psycopg
import pytest

from agent.database import pools
from agent.database.address import Address
from agent.database.errors import BudgetExceeded, OutcomeUnknown
from agent.database.pools import Database
from agent.domain.errors import Refusal, Refused
from agent.domain.policy import Policy
from agent.domain.request import RequestStatus
from agent.runtime.immediate_claims import process_votes
from agent.runtime.policy_in_force import PolicyInForce
from agent.runtime.services import Services
from agent.usecases.requests import VoteOutcome, Votes
from agent.usecases.requests import votes as votes_module
from signoff.values import Person
from tests.commit_cutter import CommitCutter, Cut
from tests.integration import invariants
from tests.integration.asking import GRACE, LINUS, Asked, ask, ballot, blocked, column, reviewer


def votes_of(db: Database) -> Votes:
    """As a process has them that is no worker."""
    return process_votes(
        cast("Services", type("Parts", (), {"db": db, "policies": PolicyInForce(db, Policy())})())
    )


async def held(url: str, asked: Asked) -> psycopg.AsyncConnection[Any]:
    """Somebody who is writing about the request's card: a vote on it cannot commit before."""
    holder = await psycopg.AsyncConnection.connect(Address.read(url).conninfo("holder"))
    await holder.execute(
        "SELECT 1 FROM delivery WHERE coalesce_key = %s FOR UPDATE", [f"card:{asked.request_id}"]
    )
    return holder


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many ballots each transaction counts, in order."""
    seen: list[int] = []
    count = votes_module.count_votes

    async def noted(db: Database, ballots: Sequence[Any], **options: Any) -> Any:
        seen.append(len(ballots))
        return await count(db, ballots, **options)

    monkeypatch.setattr(votes_module, "count_votes", noted)
    return seen


async def test_votes_that_come_together_are_counted_together(database: Database, sizes: list[int]) -> None:
    """Eight votes at the same moment are one transaction; each has its own answer."""
    votes = votes_of(database)
    ballots = [ballot(await ask(database), reviewer(GRACE)) for _ in range(7)]
    ballots.append(ballot(await ask(database), reviewer(LINUS), revision=7))
    outcomes = await asyncio.gather(*(votes.cast(each) for each in ballots), return_exceptions=True)
    assert sizes == [8]
    assert {each.status for each in outcomes[:7] if isinstance(each, VoteOutcome)} == {RequestStatus.APPROVED}
    assert isinstance(outcomes[7], Refused)
    assert outcomes[7].code is Refusal.STALE_REVISION
    assert await invariants.broken(database) == []


async def test_two_processes_make_one_decision(database: Database, database_url: str) -> None:
    """Ten people vote on one request through two processes: one decides, and nine read who did."""
    asked = await ask(database)
    people = [reviewer(Person(GRACE.team_id, f"U{number}")) for number in range(10)]
    async with Database(database_url, application_name="signoff other") as other:
        processes = votes_of(database), votes_of(other)
        answers = await asyncio.gather(
            *(
                processes[number % 2].cast(ballot(asked, each, ("approve", "reject")[number % 4 // 2]))
                for number, each in enumerate(people)
            ),
            return_exceptions=True,
        )
    refused = [each.code for each in answers if isinstance(each, Refused)]
    assert refused == [Refusal.ALREADY_DECIDED] * 9
    assert await column(database, "SELECT count(*) FROM decision") == [1]
    assert await invariants.broken(database) == []


async def test_a_request_that_does_not_exist_is_refused(database: Database) -> None:
    """A ballot on an unknown request goes alone and is refused, beside others that count."""
    votes, known = votes_of(database), await ask(database)
    unknown = replace(ballot(known, reviewer(GRACE)), request_id=uuid4())
    ballots = [ballot(await ask(database), reviewer(GRACE)), unknown, ballot(known, reviewer(GRACE))]
    outcomes = await asyncio.gather(*(votes.cast(each) for each in ballots), return_exceptions=True)
    assert [type(each) for each in outcomes] == [VoteOutcome, Refused, VoteOutcome]
    assert cast("Refused", outcomes[1]).code is Refusal.UNKNOWN_REQUEST


async def test_a_poisonous_ballot_fails_alone(database: Database, sizes: list[int]) -> None:
    """What cannot be written for one ballot is rolled back for all, and repeated for each."""
    votes = votes_of(database)
    ballots = [ballot(await ask(database), reviewer(GRACE)) for _ in range(4)]
    ballots[2] = replace(ballots[2], reason="NUL \0 cannot be stored")
    outcomes = await asyncio.gather(*(votes.cast(each) for each in ballots), return_exceptions=True)
    assert [isinstance(each, VoteOutcome) for each in outcomes] == [True, True, False, True]
    assert sizes == [4, 1, 1, 1, 1]
    assert await column(database, "SELECT count(*) FROM decision") == [3]
    assert await invariants.broken(database) == []


async def test_a_stuck_transaction_holds_up_no_other_vote(
    database: Database, database_url: str, owner: psycopg.Connection[Any]
) -> None:
    """A vote that cannot be committed yet is passed by the next one, which has its answer first."""
    votes, stuck, free = votes_of(database), await ask(database), await ask(database)
    async with await held(database_url, stuck) as holder:
        waits = asyncio.create_task(votes.cast(ballot(stuck, reviewer(GRACE))))
        await blocked(owner, 1)
        assert (await votes.cast(ballot(free, reviewer(GRACE)))).status is RequestStatus.APPROVED
        assert not waits.done()
        await holder.rollback()
    assert (await waits).status is RequestStatus.APPROVED


async def test_a_vote_that_is_too_late_is_not_counted(database: Database) -> None:
    """A vote with no time left is answered at once, and is not counted later; others of its wave are."""
    votes, late, free = votes_of(database), await ask(database), await ask(database)
    first = ballot(await ask(database), reviewer(GRACE))
    _, answer, counted = await asyncio.gather(
        votes.cast(first),
        votes.cast(ballot(late, reviewer(GRACE)), time.monotonic() + 0.1),
        votes.cast(ballot(free, reviewer(GRACE)), time.monotonic() + 60),
        return_exceptions=True,
    )
    assert isinstance(answer, BudgetExceeded)
    assert "nothing was written" in str(answer)
    assert isinstance(counted, VoteOutcome)
    assert await column(database, "SELECT count(*) FROM vote WHERE request_id = :id", id=late.request_id) == [
        0
    ]


async def test_a_vote_is_answered_at_its_deadline(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a lock that is not released, a vote ends at its own deadline, and not after the whole budget."""
    monkeypatch.setattr(pools, "DECISION_BUDGET", 600.0)
    asked = await ask(database)
    async with (
        Database(database_url) as db,
        await psycopg.AsyncConnection.connect(Address.read(database_url).conninfo("holder")) as holder,
    ):
        await holder.execute("SELECT 1 FROM approval_request FOR UPDATE")
        with pytest.raises(BudgetExceeded):
            async with asyncio.timeout(60):
                await votes_of(db).cast(ballot(asked, reviewer(GRACE)), time.monotonic() + 0.8)
        await holder.rollback()
    assert await column(database, "SELECT count(*) FROM vote") == [0]


async def test_a_vote_that_nobody_waits_for_any_more_is_not_counted(
    database: Database, database_url: str, owner: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A click whose time runs out while its vote waits for others is answered; its vote is withdrawn."""
    monkeypatch.setattr(votes_module, "PATIENCE", 60.0)
    votes, stuck, waiting = votes_of(database), await ask(database), await ask(database)
    async with await held(database_url, stuck) as holder:
        under_way = asyncio.create_task(votes.cast(ballot(stuck, reviewer(GRACE))))
        await blocked(owner, 1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await votes.cast(ballot(waiting, reviewer(GRACE)))
        await holder.rollback()
    assert (await under_way).status is RequestStatus.APPROVED
    assert await column(database, "SELECT request_id FROM vote") == [stuck.request_id]


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_voters_whose_commit_is_not_answered_are_told_so(
    database: Database, database_url: str, tmp_path: Path, cut: Cut
) -> None:
    """Each member of a wave gets "outcome unknown"; voting again gives each the answer of the first time."""
    asked = [await ask(database) for _ in range(5)]
    async with CommitCutter(database_url, tmp_path).running() as cutter, Database(cutter.url) as db:
        votes = votes_of(db)
        first = asyncio.create_task(votes.cast(ballot(asked[0], reviewer(GRACE))))
        await asyncio.sleep(0)
        rest = [asyncio.create_task(votes.cast(ballot(each, reviewer(GRACE)))) for each in asked[1:]]
        await first
        cutter.cut_next(cut)
        answers = await asyncio.gather(*rest, return_exceptions=True)
    assert [type(each) for each in answers] == [OutcomeUnknown] * 4
    again = [await votes_of(database).cast(ballot(each, reviewer(GRACE))) for each in asked[1:]]
    assert {(each.status, each.repeated) for each in again} == {(RequestStatus.APPROVED, cut == "after")}
    assert await column(database, "SELECT count(*) FROM vote") == [5]
    assert await invariants.broken(database) == []

"""Votes that are counted together, on a real PostgreSQL."""

from __future__ import annotations

from uuid import UUID

import psycopg
import pytest

from agent.database.address import Address
from agent.database.pools import Database
from agent.domain.errors import Refusal, Refused
from agent.domain.request import Place, RequestStatus
from agent.usecases import policy, requests
from agent.usecases.requests import VoteOutcome, count_votes
from agent.usecases.waves import SKIPPED
from tests.integration import invariants
from tests.integration.asking import (
    GRACE,
    LINUS,
    Asked,
    ask,
    asked_as,
    ballot,
    column,
    programs_question,
    reviewer,
    rule,
    write,
)


async def test_votes_on_different_requests_are_counted_together(database: Database) -> None:
    """Each ballot gets what it would have got alone: decided, counted, refused; one transaction writes them all."""
    approved, rejected, halfway, stale = [
        await ask(database, rule(approvals_required=needed)) for needed in (1, 1, 2, 1)
    ]
    outcomes = await count_votes(
        database,
        [
            ballot(approved, reviewer(GRACE)),
            ballot(rejected, reviewer(GRACE), "reject", reason="no"),
            ballot(halfway, reviewer(LINUS)),
            ballot(stale, reviewer(LINUS), revision=7),
        ],
        wait=False,
    )
    assert outcomes[:3] == [
        VoteOutcome(RequestStatus.APPROVED, 1, 0),
        VoteOutcome(RequestStatus.REJECTED, 0, 1),
        VoteOutcome(RequestStatus.WAITING, 1, 1),
    ]
    assert isinstance(outcomes[3], Refused)
    assert outcomes[3].code is Refusal.STALE_REVISION
    assert await column(database, "SELECT state::text FROM tool_call ORDER BY id") == [
        "ready",
        "refused",
        "asked",
        "asked",
    ]
    assert await column(database, "SELECT count(DISTINCT xmin::text) FROM decision") == [1]
    assert await invariants.broken(database) == []


@pytest.mark.parametrize("asks", ["a run", "a program"])
@pytest.mark.parametrize(
    "held",
    [
        "SELECT 1 FROM approval_request WHERE id = %(request)s FOR NO KEY UPDATE",
        "SELECT 1 FROM tool_call WHERE id = %(call)s FOR NO KEY UPDATE",
        "SELECT 1 FROM audit_head WHERE subject = 'request:' || %(request)s FOR NO KEY UPDATE",
    ],
    ids=["request", "call", "head"],
)
async def test_a_request_that_somebody_holds_delays_no_other_vote(
    database: Database, database_url: str, held: str, asks: str
) -> None:
    """A ballot whose request, call or chain is locked is left out of the wave, unwritten, and counts alone."""
    free, busy = await ask(database), await (ask if asks == "a run" else _ask_by_program)(database)
    ballots = [ballot(busy, reviewer(GRACE)), ballot(free, reviewer(GRACE))]
    async with await psycopg.AsyncConnection.connect(Address.read(database_url).conninfo("holder")) as holder:
        await holder.execute(held, {"request": busy.request_id, "call": busy.call_id})
        left_out, counted = await count_votes(database, ballots, wait=False)
        assert left_out is SKIPPED
        assert counted == VoteOutcome(RequestStatus.APPROVED, 1, 0)
        assert await column(database, "SELECT request_id FROM vote") == [free.request_id]
        await holder.rollback()
    assert await count_votes(database, ballots[:1], wait=True) == [VoteOutcome(RequestStatus.APPROVED, 1, 0)]


async def _ask_by_program(db: Database) -> Asked:
    """The id of its call is that of the request."""
    new = programs_question(rule(), policy_epoch=await policy.epoch_in_force(db))
    opened = await requests.open(db, new)
    return await asked_as(db, opened.request_id, opened.request_id, UUID(int=0))


async def test_the_second_vote_on_a_request_goes_alone(database: Database) -> None:
    """Of two ballots on one request the first is counted, in its place; the second reads who decided."""
    asked = await ask(database)
    elsewhere = Place("x" * 22, "channel", "C0REVIEW", "1.1")
    ballots = [ballot(asked, reviewer(GRACE)), ballot(asked, reviewer(LINUS), place=elsewhere)]
    first, second = await count_votes(database, ballots, wait=False)
    assert first == VoteOutcome(RequestStatus.APPROVED, 1, 0)
    assert second is SKIPPED
    [alone] = await count_votes(database, [ballot(asked, reviewer(LINUS))], wait=True)
    assert isinstance(alone, Refused)
    assert alone.code is Refusal.ALREADY_DECIDED


async def test_a_nonce_counts_for_its_own_ballot(database: Database) -> None:
    """A ballot that names a place of another request neither gets in there nor moves the ballot on that request."""
    mine, other = await ask(database), await ask(database)
    elsewhere = "x" * 22
    await write(
        database,
        """INSERT INTO card_place (nonce, request_id, surface, team_id, user_id)
           SELECT :nonce, id, 'home', team_id, 'U0LINUS' FROM approval_request WHERE id = :id""",
        nonce=elsewhere,
        id=mine.request_id,
    )
    ballots = [
        ballot(mine, reviewer(GRACE)),
        ballot(other, reviewer(LINUS), place=Place(elsewhere, "home", None, None)),
    ]
    counted, refused = await count_votes(database, ballots, wait=False)
    assert counted == VoteOutcome(RequestStatus.APPROVED, 1, 0)
    assert isinstance(refused, Refused)
    assert refused.code is Refusal.UNKNOWN_REQUEST

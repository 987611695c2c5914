"""The use cases on requests, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text

from agent.database.pools import Database
from agent.database.wakeups import Wakeup, WakeupKind
from agent.domain.errors import Refusal, Refused
from agent.domain.people import Standing
from agent.domain.request import Electorate, ExecutionStatus, Place, RequestStatus
from agent.domain.run import Turn
from agent.runtime.executor import Look
from agent.store import views
from agent.usecases import calls as call_usecases
from agent.usecases import requests, runs
from agent.usecases.calls import Outcome
from agent.usecases.requests import count_votes, outcomes
from signoff.errors import Conflict
from signoff.values import Person
from tests.integration import alone
from tests.integration.asking import (
    ADA,
    GRACE,
    LINUS,
    TEAM,
    ask,
    ballot,
    claim_approved,
    column,
    question,
    reviewer,
    rule,
    start,
    write,
)


async def test_an_approved_call_runs_once_and_wakes_its_run(database: Database) -> None:
    """A click makes the call ready; it can be claimed once, and its result is the run's next input."""
    asked = await ask(database)
    assert await column(database, "SELECT status::text FROM pending_reviews") == ["waiting"]
    assert await column(database, "SELECT status::text FROM agent_run") == ["pending_approval"]
    voted = await alone.vote(database, ballot(asked, reviewer(GRACE)))
    assert voted.status is RequestStatus.APPROVED
    claims = await asyncio.gather(
        *(alone.claim(database, asked.call_id, worker=f"w{n}", idempotent=False) for n in range(5))
    )
    claim = next(claim for claim in claims if claim is not None)
    assert sum(claim is not None for claim in claims) == 1
    assert claim.action.arguments == {"order_id": 0}
    assert await alone.report(database, claim, Outcome(ExecutionStatus.SUCCEEDED, "refunded"))
    leased = await alone.lease(database, asked.run_id, "worker-2")
    assert leased is not None
    assert leased.tools_on
    assert leased.calls[0].answer is not None
    assert leased.calls[0].answer.text == "refunded"


async def test_the_same_question_twice_is_one_request(database: Database) -> None:
    """Twenty concurrent openings of one call give one request; other arguments are refused."""
    run_id, calls = await start(database)
    new = question(run_id, calls[0], rule())
    opened = await asyncio.gather(*(requests.open(database, new) for _ in range(20)))
    assert len({each.request_id for each in opened}) == 1
    assert sum(each.created for each in opened) == 1
    with pytest.raises(Conflict):
        await requests.open(database, question(run_id, calls[0], rule(), order=8))


async def test_ten_people_at_once_make_one_decision(database: Database) -> None:
    """Of ten mixed clicks at the same moment one decides, and nine read who did."""
    asked = await ask(database)
    people = [reviewer(Person(ADA.team_id, f"U{n}")) for n in range(10)]
    verdicts = ["approve", "reject"] * 5
    results = await asyncio.gather(
        *(alone.vote(database, ballot(asked, p, v)) for p, v in zip(people, verdicts, strict=True)),
        return_exceptions=True,
    )
    refused = [result for result in results if isinstance(result, Refused)]
    assert len(refused) == 9
    assert {each.code for each in refused} == {Refusal.ALREADY_DECIDED}
    [decider] = await column(database, "SELECT user_id FROM decision")
    assert all(decider in each.sentence for each in refused)


async def test_a_late_click_never_approves(database: Database) -> None:
    """After the deadline a click is refused although no sweep has run yet."""
    asked = await ask(database, rule(timeout=timedelta(milliseconds=1)))
    with pytest.raises(Refused) as caught:
        await alone.vote(database, ballot(asked, reviewer(GRACE)))
    assert caught.value.code is Refusal.EXPIRED
    assert await requests.expire_due(database) == 1
    assert await requests.expire_due(database) == 0
    assert await runs.answer_call(database, asked.call_id) is None
    assert await column(database, "SELECT answer_kind::text FROM tool_call") == ["expired"]


async def test_the_same_click_again_changes_nothing(database: Database) -> None:
    """Three deliveries of one click are one vote and one audit event, with the same reply."""
    asked = await ask(database)
    first = await alone.vote(database, ballot(asked, reviewer(GRACE)))
    again = [await alone.vote(database, ballot(asked, reviewer(GRACE))) for _ in range(2)]
    assert {each.status for each in (first, *again)} == {RequestStatus.APPROVED}
    assert await column(database, "SELECT count(*) FROM vote") == [1]
    events = await column(database, "SELECT event FROM audit_event WHERE event LIKE 'vote.%'")
    assert events == ["vote.cast"]


async def test_a_quorum_needs_distinct_people_who_may_still_decide(database: Database) -> None:
    """Two of two: one person twice is not enough, and a vote whose reviewer lost the right does not count."""
    asked = await ask(database, rule(approvals_required=2))
    assert (await alone.vote(database, ballot(asked, reviewer(GRACE)))).needed == 1
    assert (await alone.vote(database, ballot(asked, reviewer(GRACE)))).repeated
    gone = Standing(GRACE, frozenset())
    voted = await alone.vote(database, ballot(asked, reviewer(LINUS), others=[gone]))
    assert voted.status is RequestStatus.WAITING
    third = reviewer(Person(ADA.team_id, "U0EVE"))
    voted = await alone.vote(database, ballot(asked, third, others=[gone, reviewer(LINUS)]))
    assert voted.status is RequestStatus.APPROVED


async def test_a_vote_since_the_standings_were_looked_up_has_to_be_looked_up(database: Database) -> None:
    """A ballot that lacks the standing of another voter writes nothing; with it, the two make the quorum."""
    asked = await ask(database, rule(approvals_required=2))
    await alone.vote(database, ballot(asked, reviewer(GRACE)))
    with pytest.raises(requests.NotLookedUp) as caught:
        await alone.vote(database, ballot(asked, reviewer(LINUS)))
    assert caught.value.electorate.voters == (LINUS, GRACE)
    assert await column(database, "SELECT user_id FROM vote") == [GRACE.user_id]
    voted = await alone.vote(database, ballot(asked, reviewer(LINUS), others=[reviewer(GRACE)]))
    assert voted.status is RequestStatus.APPROVED


async def test_rights_are_asked_for_under_the_lock(database: Database) -> None:
    """A ballot names whose rights it needs, as the request and its votes are by then; unknown, it writes nothing."""
    asked = await ask(database, rule(approvals_required=2))
    await alone.vote(database, ballot(asked, reviewer(GRACE)))
    seen: list[Electorate] = []

    def nobody_is_known(electorate: Electorate) -> None:
        seen.append(electorate)

    unknown = ballot(asked, Standing(LINUS), rights=nobody_is_known)
    voted = await count_votes(database, [unknown], wait=True, may_be_denied=lambda tool: False)
    with pytest.raises(requests.NotLookedUp) as caught:
        alone.only(voted)
    [electorate] = seen
    assert caught.value.electorate == electorate
    assert electorate == Electorate(TEAM, "C0REVIEW", ("S0FINANCE",), (LINUS, GRACE), "process_refund")
    assert await column(database, "SELECT user_id FROM vote") == [GRACE.user_id]
    assert await column(database, "SELECT count(*) FROM audit_event WHERE event = 'vote.refused'") == [0]


@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_what_policy_may_deny_is_not_approved_before_it_was_asked(
    database: Database, verdict: str
) -> None:
    """If a denial names the tool, an approval waits for policy's word, even if all rights are known."""
    asked = await ask(database)
    everybody = {GRACE: reviewer(GRACE)}
    known = ballot(asked, Standing(GRACE), verdict, reason="no", rights=lambda electorate: everybody)
    named: list[str] = []

    def may_be_denied(tool: str) -> bool:
        named.append(tool)
        return True

    [voted] = await count_votes(database, [known], wait=True, may_be_denied=may_be_denied)
    if verdict == "approve":
        assert isinstance(voted, requests.NotLookedUp)
        assert named == ["process_refund"]
    else:
        assert isinstance(voted, requests.VoteOutcome)
        assert voted.status is RequestStatus.REJECTED


async def test_a_reviewer_may_change_their_mind_until_it_is_decided(database: Database) -> None:
    """A rejection after one's own approval ends the request; the superseded vote stays on record."""
    asked = await ask(database, rule(approvals_required=2))
    await alone.vote(database, ballot(asked, reviewer(GRACE)))
    voted = await alone.vote(database, ballot(asked, reviewer(GRACE), "reject", reason="wrong order"))
    assert voted.status is RequestStatus.REJECTED
    assert await column(database, "SELECT count(*) FROM vote WHERE superseded_by IS NULL") == [1]
    assert await column(database, "SELECT count(*) FROM vote") == [2]


@pytest.mark.parametrize(
    ("standing", "changes", "refusal"),
    [
        (Standing(GRACE, frozenset(), None), {}, Refusal.NOT_A_REVIEWER),
        (Standing(GRACE, frozenset({"S0FINANCE"}), Refusal.GUEST), {}, Refusal.GUEST),
        (reviewer(ADA), {}, Refusal.SELF_REVIEW),
        (reviewer(GRACE), {"revision": 2}, Refusal.STALE_REVISION),
        (reviewer(GRACE), {"place": Place("x" * 22, "channel", "C0REVIEW", "1.1")}, Refusal.UNKNOWN_REQUEST),
    ],
)
async def test_who_may_not_vote_is_refused_and_recorded(
    database: Database, standing: Standing, changes: dict[str, Any], refusal: Refusal
) -> None:
    """Each reason has its own refusal; nothing is decided, and the attempt is on record."""
    asked = await ask(database)
    with pytest.raises(Refused) as caught:
        await alone.vote(database, ballot(asked, standing, **changes))
    assert caught.value.code is refusal
    assert await column(database, "SELECT count(*) FROM decision") == [0]
    recorded = await column(
        database, "SELECT detail ->> 'refusal' FROM audit_event WHERE event = 'vote.refused'"
    )
    assert recorded == ([] if refusal is Refusal.UNKNOWN_REQUEST else [refusal.value])


async def test_a_click_from_another_message_is_refused(database: Database) -> None:
    """Once a card's message is known, its buttons work nowhere else."""
    asked = await ask(database, rule(approvals_required=2))
    await alone.vote(database, ballot(asked, reviewer(GRACE)))
    forged = Place(asked.nonce, "channel", "C0REVIEW", "1700000000.999999")
    with pytest.raises(Refused) as caught:
        await alone.vote(database, ballot(asked, reviewer(LINUS), place=forged))
    assert caught.value.code is Refusal.WRONG_PLACE


async def test_a_rejection_that_stops_ends_the_run_and_its_parents(database: Database) -> None:
    """With `on_reject = "stop"` the run and its parent end denied, with the cause and the reason."""
    parent_id, _ = await start(database)
    asked = await ask(database, rule(on_reject="stop"), parent=parent_id)
    await alone.vote(database, ballot(asked, reviewer(GRACE), "reject", reason="no"))
    error = await runs.answer_call(database, asked.call_id)
    assert str(error).startswith("rejected")
    assert await column(database, "SELECT status::text FROM agent_run") == ["denied", "denied"]


async def test_a_background_call_lets_the_chat_go_on(database: Database) -> None:
    """The run is answered at once and completes; the outcome wakes it again as a note."""
    asked = await ask(database, background=True)
    leased = await alone.lease(database, asked.run_id, "worker-1")
    assert leased is not None
    assert leased.tools_on
    await alone.record_turn(database, leased.lease, Turn("It is being reviewed.", (), 5, leased.heard))
    assert await column(database, "SELECT status::text FROM agent_run") == ["completed"]
    claim = await claim_approved(database, asked)
    await alone.report(database, claim, Outcome(ExecutionStatus.SUCCEEDED, "refunded"))
    leased = await alone.lease(database, asked.run_id, "worker-1")
    assert leased is not None
    assert leased.messages[-1].role == "note"
    assert "refunded" in (leased.messages[-1].text or "")


async def test_a_lost_worker_leaves_its_attempt_in_doubt_until_a_person_settles_it(
    database: Database,
) -> None:
    """It is not run again by itself; Retry makes a new attempt, and the old worker's late result is kept beside."""
    asked = await ask(database)
    claim = await claim_approved(database, asked, worker="gone")
    assert await call_usecases.rescue(database) == 0
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE execution SET lease_until = clock_timestamp()"))
    assert await call_usecases.rescue(database) == 1
    assert await alone.claim(database, asked.call_id, worker="w2", idempotent=False) is None
    with pytest.raises(Refused):
        await requests.settle(database, claim.execution_id, reviewer(ADA), "retry")
    await requests.settle(database, claim.execution_id, reviewer(GRACE), "retry")
    assert not await alone.report(database, claim, Outcome(ExecutionStatus.SUCCEEDED, "late"))
    with pytest.raises(Conflict):
        await requests.settle(database, claim.execution_id, reviewer(LINUS), "done")
    again = await alone.claim(database, asked.call_id, worker="w2", idempotent=False)
    assert again is not None
    assert again.attempt == 2


async def test_only_the_requester_asks_again_after_an_expiry(database: Database) -> None:
    """Asking again twice is one new call with the same arguments, in the background of the same run."""
    asked = await ask(database, rule(timeout=timedelta(milliseconds=1)))
    await requests.expire_due(database)
    with pytest.raises(Refused):
        await requests.ask_again(database, asked.request_id, reviewer(GRACE))
    first = await requests.ask_again(database, asked.request_id, reviewer(ADA))
    assert first == await requests.ask_again(database, asked.request_id, reviewer(ADA))
    async with database.connection() as connection:
        call = (await views.open_call_details(connection, [first]))[first]
    assert call.call.repeats == asked.call_id
    assert not call.call.blocking


async def test_a_decision_that_somebody_waits_to_see_goes_first(database: Database) -> None:
    """The call of a request that a person decided goes before those of requests that expired."""
    woken: list[Wakeup] = []
    unlisten = database.wakeups.listen(partial(_keep, woken))
    expired = await ask(database)
    await write(database, OVERDUE)
    await requests.expire_due(database)
    decided = await ask(database)
    await alone.vote(database, ballot(decided, reviewer(GRACE)))
    unlisten()
    assert _calls(woken) == {expired.call_id: False, decided.call_id: True}


async def test_many_deadlines_at_once_are_left_to_looks(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many endings at once wake no call; each look finds so many of them, until none is left."""
    monkeypatch.setattr(outcomes, "MAX_WAKEUPS", 4)
    woken: list[Wakeup] = []
    run_id, calls = await start(database, calls=5)
    await asyncio.gather(*(requests.open(database, question(run_id, call, rule())) for call in calls))
    await write(database, OVERDUE)
    unlisten = database.wakeups.listen(partial(_keep, woken))
    assert await requests.expire_due(database) == 5
    unlisten()
    assert _calls(woken) == {}
    [agent] = await column(database, "SELECT agent FROM agent_run")
    found = []
    for _ in range(3):
        due = [each.key for each in await Look(database, lambda: [agent], page=2).find()]
        found.append(len(set(due) & set(calls)))
        await write(
            database,
            "UPDATE tool_call SET state = 'answered', answered_at = clock_timestamp() WHERE id = ANY(:due)",
            due=due,
        )
    assert found == [2, 2, 1]


OVERDUE = (
    "UPDATE approval_request SET expires_at = created_at + interval '1 microsecond' WHERE status = 'waiting'"
)


def _keep(woken: list[Wakeup], wakeups: Sequence[Wakeup]) -> Sequence[Wakeup]:
    woken += wakeups
    return []


def _calls(woken: list[Wakeup]) -> dict[Any, bool]:
    """Which calls were woken, and whether they go first."""
    return {each.key: each.first for each in woken if each.kind is WakeupKind.CALL}

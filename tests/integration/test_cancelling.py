"""Stopping a run: who may, and what stops with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent.database.pools import Database
from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.people import Standing
from agent.domain.request import ExecutionStatus, RequestStatus
from agent.domain.rules import Rule
from agent.store import views
from agent.store.ids import new_id
from agent.store.outbox import Destination
from agent.usecases import calls, requests, runs
from agent.usecases.calls import Outcome
from tests.integration import alone, invariants
from tests.integration.asking import (
    ADA,
    GRACE,
    LINUS,
    REVIEWERS,
    TEAM,
    Asked,
    ask,
    asked_as,
    ballot,
    claim_approved,
    column,
    question,
    reviewer,
    rows,
    rule,
    start,
    write,
)
from tests.stress.budget import full
from tests.stress.rounds import counted


async def test_its_requester_stops_a_run_and_nobody_is_asked_any_more(database: Database) -> None:
    """The request is withdrawn, the run is cancelled and told, its call is answered; a second time changes nothing."""
    asked = await ask(database)
    assert await runs.cancel(database, asked.run_id, Standing(ADA))
    assert not await runs.cancel(database, asked.run_id, Standing(ADA))
    async with database.connection() as connection:
        run = await views.run_view(connection, asked.run_id)
        request = await views.request_view(connection, asked.request_id)
    assert run is not None
    assert request is not None
    assert run.status.value == "cancelled"
    assert request.status is RequestStatus.CANCELLED
    assert request.decision is not None
    assert request.decision.person == ADA
    assert await column(
        database, "SELECT body ->> 'user' FROM delivery WHERE body ->> 'line' = 'cancelled'"
    ) == [ADA.user_id]
    actors = await column(database, "SELECT actor FROM audit_event WHERE event = 'run.ended'")
    assert actors == [f"slack:{ADA}"]
    with pytest.raises(Refused) as caught:
        await alone.vote(database, ballot(asked, reviewer(GRACE)))
    assert caught.value.code is Refusal.WITHDRAWN
    await runs.answer_call(database, asked.call_id)
    assert await column(database, "SELECT answer_kind::text FROM tool_call") == ["withdrawn"]
    assert await alone.lease(database, asked.run_id, "w") is None


@pytest.mark.parametrize(
    ("standing", "refusal"),
    [
        (Standing(LINUS), Refusal.NOT_YOUR_RUN),
        (Standing(LINUS, frozenset({"S0OTHER"})), Refusal.NOT_YOUR_RUN),
        (Standing(ADA, refusal=Refusal.DEACTIVATED), Refusal.DEACTIVATED),
    ],
)
async def test_others_do_not(database: Database, standing: Standing, refusal: Refusal) -> None:
    """Somebody who neither started it nor may decide what it waits for is refused."""
    asked = await ask(database)
    with pytest.raises(Refused) as caught:
        await runs.cancel(database, asked.run_id, standing)
    assert caught.value.code is refusal
    with pytest.raises(NotFound):
        await runs.cancel(database, new_id(), Standing(ADA))


async def test_a_reviewer_of_what_it_waits_for_may(database: Database) -> None:
    """The paper names the approvers to resolve, and one of them stops the run."""
    asked = await ask(database)
    async with database.connection() as connection:
        paper = await views.cancel_context(connection, asked.run_id)
        assert await views.cancel_context(connection, asked.request_id) is None
    assert paper is not None
    assert (paper.requester, paper.audiences) == (ADA, (((REVIEWERS,), "C0REVIEW"),))
    assert await runs.cancel(database, asked.run_id, reviewer(GRACE))


async def test_the_paper_names_whom_the_cancellation_asks_for(database: Database) -> None:
    """Reviewers of every channel, and of what the runs below wait for, stop the run; and nobody else does."""
    parent, (call_id, _) = await start(database, calls=2)
    opened = await requests.open(database, question(parent, call_id, rule(approvers=("U0LINUS",))))
    members = rule(approvers=("channel",))
    await ask(database, members, parent=parent, destination=Destination(TEAM, "C0OTHER"))
    async with database.connection() as connection:
        paper = await views.cancel_context(connection, parent)
    assert paper is not None
    assert paper.audiences == ((("channel",), "C0OTHER"), (("U0LINUS",), "C0REVIEW"))
    for by, channels in (
        (reviewer(GRACE, "channel"), ()),
        (reviewer(GRACE), ("C0REVIEW",)),
        (reviewer(GRACE, "channel"), ("C0REVIEW",)),
    ):
        with pytest.raises(Refused):
            await runs.cancel(database, parent, by, channels)
    assert await runs.cancel(database, parent, Standing(GRACE), ("C0OTHER",))
    async with database.connection() as connection:
        view = await views.request_view(connection, opened.request_id)
    assert view is not None
    assert view.status is RequestStatus.CANCELLED


async def test_a_reviewer_of_the_second_kind_stops_it_too(database: Database) -> None:
    """A run that waits for two audiences is stopped by either of them."""
    run_id, (first, second) = await start(database, calls=2)
    await requests.open(database, question(run_id, first, rule()))
    await requests.open(database, question(run_id, second, rule(approvers=("S0LEGAL",)), order=1))
    assert await runs.cancel(database, run_id, reviewer(LINUS, "S0LEGAL"))


async def test_refused_cancellations_are_on_record(database: Database) -> None:
    """The run's audit chain records who tried, on which path and why it did not count; the run continues."""
    asked = await ask(database)
    with pytest.raises(Refused):
        await runs.cancel(database, asked.run_id, Standing(LINUS), path="slack_command")
    assert await rows(
        database, "SELECT subject, actor, detail FROM audit_event WHERE event = 'cancel.refused'"
    ) == [(f"run:{asked.run_id}", f"slack:{LINUS}", {"refusal": "not_your_run", "path": "slack_command"})]
    assert await column(database, "SELECT status::text FROM agent_run") == ["pending_approval"]


async def test_what_has_not_begun_does_not_begin_and_what_has_ends(database: Database) -> None:
    """An approved call that nobody has claimed yet stays unclaimed; one that runs is reported as it ends."""
    asked, running = await ask(database), await ask(database)
    await alone.vote(database, ballot(asked, reviewer(GRACE)))
    claim = await claim_approved(database, running)
    assert await runs.cancel(database, asked.run_id, Standing(ADA))
    assert await runs.cancel(database, running.run_id, Standing(ADA))
    assert await alone.claim(database, asked.call_id, worker="w", idempotent=False) is None
    assert await alone.report(database, claim, Outcome(ExecutionStatus.SUCCEEDED, "refunded"))
    assert set(await column(database, "SELECT status::text FROM agent_run")) == {"cancelled"}


async def test_the_runs_that_it_started_stop_with_it(database: Database) -> None:
    """A run's child runs are cancelled too, with their requests; a separate run continues."""
    parent, _ = await start(database)
    helper = await ask(database, parent=parent)
    beside = await ask(database)
    assert await runs.cancel(database, parent, Standing(ADA))
    cancelled = await column(database, "SELECT id FROM agent_run WHERE status = 'cancelled'")
    assert set(cancelled) == {parent, helper.run_id}
    waiting = await column(database, "SELECT id FROM approval_request WHERE status = 'waiting'")
    assert waiting == [beside.request_id]


async def two_asked(database: Database, stopping: Rule) -> tuple[Asked, Asked]:
    """A run that waits for two requests; a rejection of the first one ends it."""
    run_id, (first, second) = await start(database, calls=2)
    asked = []
    for order, (call_id, terms) in enumerate(((first, stopping), (second, rule()))):
        opened = await requests.open(database, question(run_id, call_id, terms, order=order))
        asked.append(await asked_as(database, opened.request_id, call_id, run_id))
    return asked[0], asked[1]


async def test_a_rejection_that_ends_the_run_stops_what_was_approved_beside_it(database: Database) -> None:
    """The approved call does not begin any more; its card and its thread say so, and the model would read it."""
    stopping, other = await two_asked(database, rule(on_reject="stop"))
    await alone.vote(database, ballot(other, reviewer(GRACE)))
    await alone.vote(database, ballot(stopping, reviewer(GRACE), "reject"))
    assert await runs.answer_call(database, stopping.call_id) is not None
    assert await alone.claim(database, other.call_id, worker="w", idempotent=False) is None
    async with database.connection() as connection:
        view = await views.request_view(connection, other.request_id)
    assert view is not None
    assert (view.status, view.stopped) == (RequestStatus.APPROVED, True)
    assert await column(database, "SELECT request_id FROM delivery WHERE body ->> 'line' = 'stopped'") == [
        other.request_id
    ]
    await runs.answer_call(database, other.call_id)
    kinds = await column(database, "SELECT answer_kind::text FROM tool_call ORDER BY index")
    assert kinds == ["rejected", "withdrawn"]
    assert await invariants.broken(database) == []


@pytest.mark.parametrize("status", ["denied", "failed", "cancelled"])
async def test_nothing_is_claimed_for_a_run_that_has_ended(database: Database, status: str) -> None:
    """Even a call that some mistake left ready: the claim looks at the run, under its lock."""
    asked = await ask(database)
    await alone.vote(database, ballot(asked, reviewer(GRACE)))
    await write(
        database, "UPDATE agent_run SET status = CAST(:status AS run_status), cause = 'x'", status=status
    )
    assert await alone.claim(database, asked.call_id, worker="w", idempotent=False) is None
    assert await column(database, "SELECT state::text FROM tool_call") == ["refused"]
    assert await column(database, "SELECT count(*) FROM execution") == [0]


@pytest.mark.parametrize("rounds", [5, pytest.param(full(300), marks=pytest.mark.stress)])
async def test_a_claim_and_the_end_of_its_run_at_once(database: Database, rounds: int) -> None:
    """Whichever comes first: the call begins before the run ends, or not at all."""
    for n in counted(range(rounds)):
        stopping, other = await two_asked(database, rule(on_reject="stop"))
        await alone.vote(database, ballot(stopping, reviewer(GRACE), "reject"))
        if n % 2:
            end: Any = runs.cancel(database, other.run_id, Standing(ADA))
        else:
            end = runs.answer_call(database, stopping.call_id)
        _, _, claim = await asyncio.gather(
            alone.vote(database, ballot(other, reviewer(GRACE))),
            end,
            alone.claim(database, other.call_id, worker="w", idempotent=False),
            return_exceptions=True,
        )
        assert not isinstance(claim, Exception)
        again = await alone.claim(database, other.call_id, worker="w", idempotent=False)
        assert again is None
        begun = await column(
            database,
            "SELECT count(*) FROM execution AS e JOIN audit_event AS a ON a.subject = 'run:' || :run"
            " AND a.event = 'run.ended' WHERE e.call_id = :call AND e.started_at > a.at",
            run=str(other.run_id),
            call=other.call_id,
        )
        assert begun == [0]
    assert await invariants.broken(database) == []


async def test_a_lost_attempt_of_a_cancelled_run_waits_for_a_person(database: Database) -> None:
    """An idempotent tool is not retried automatically after the cancellation; a person's Retry counts."""
    asked = await ask(database)
    lost = await claim_approved(database, asked, worker="gone", idempotent=True)
    await runs.cancel(database, asked.run_id, Standing(ADA))
    await write(database, "UPDATE execution SET lease_until = clock_timestamp()")
    assert await calls.rescue(database) == 1
    assert await column(database, "SELECT state::text FROM tool_call") == ["in_doubt"]
    assert await alone.claim(database, asked.call_id, worker="w", idempotent=True) is None
    await requests.settle(database, lost.execution_id, reviewer(GRACE), "retry")
    again = await alone.claim(database, asked.call_id, worker="w", idempotent=True)
    assert again is not None
    assert await invariants.broken(database) == []

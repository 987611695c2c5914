"""Stopping a run: who may, and what stops with it."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from agent import approvals, executions, runs
from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.people import Standing
from agent.domain.request import ExecutionStatus, RequestStatus
from agent.executions import Outcome
from agent.store import reads
from agent.store.database import Database
from agent.store.ids import new_id
from tests.integration.asking import ADA, GRACE, LINUS, REVIEWERS, ask, ballot, column, reviewer, start


async def test_its_requester_stops_a_run_and_nobody_is_asked_any_more(database: Database) -> None:
    """The request is withdrawn, the run is cancelled and told, its call is answered; a second time changes nothing."""
    asked = await ask(database)
    assert await runs.cancel(database, asked.run_id, Standing(ADA))
    assert not await runs.cancel(database, asked.run_id, Standing(ADA))
    async with database.connection() as connection:
        run = await reads.run_view(connection, asked.run_id)
        request = await reads.request_view(connection, asked.request_id)
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
        await approvals.vote(database, ballot(asked, reviewer(GRACE)))
    assert caught.value.code is Refusal.WITHDRAWN
    await runs.answer_call(database, asked.call_id)
    assert await column(database, "SELECT answer_kind::text FROM tool_call") == ["withdrawn"]
    assert await runs.lease(database, asked.run_id, "w") is None


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
        paper = await reads.cancel_paper(connection, asked.run_id)
        assert await reads.cancel_paper(connection, asked.request_id) is None
    assert paper is not None
    assert (paper.requester, paper.approvers, paper.channel_id) == (ADA, (REVIEWERS,), "C0REVIEW")
    assert await runs.cancel(database, asked.run_id, reviewer(GRACE))


async def test_what_has_not_begun_does_not_begin_and_what_has_ends(database: Database) -> None:
    """An approved call that nobody has claimed yet stays unclaimed; one that runs is reported as it ends."""
    asked, running = await ask(database), await ask(database)
    await approvals.vote(database, ballot(asked, reviewer(GRACE)))
    await approvals.vote(database, ballot(running, reviewer(GRACE)))
    claim = await executions.claim(database, running.call_id, worker="w", idempotent=False)
    assert claim is not None
    assert await runs.cancel(database, asked.run_id, Standing(ADA))
    assert await runs.cancel(database, running.run_id, Standing(ADA))
    assert await executions.claim(database, asked.call_id, worker="w", idempotent=False) is None
    assert await executions.report(database, claim, Outcome(ExecutionStatus.SUCCEEDED, "refunded"))
    assert set(await column(database, "SELECT status::text FROM agent_run")) == {"cancelled"}


async def test_the_runs_that_it_started_stop_with_it(database: Database) -> None:
    """A run's helpers are cancelled too, with what they ask; a run beside it goes on."""
    helper = await ask(database)
    parent, _ = await start(database)
    beside = await ask(database)
    async with database.transaction() as connection:
        await connection.execute(
            text("UPDATE agent_run SET parent_run_id = :parent WHERE id = :child"),
            {"parent": parent, "child": helper.run_id},
        )
    assert await runs.cancel(database, parent, Standing(ADA))
    cancelled = await column(database, "SELECT id FROM agent_run WHERE status = 'cancelled'")
    assert set(cancelled) == {parent, helper.run_id}
    waiting = await column(database, "SELECT id FROM approval_request WHERE status = 'waiting'")
    assert waiting == [beside.request_id]

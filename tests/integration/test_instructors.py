"""A person who instructs an agent reviews nothing that it proposes after that, and does not resume an ended run."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from uuid import UUID

import pytest

from agent.database.pools import Database
from agent.domain.errors import Refusal, Refused
from agent.domain.request import ExecutionStatus
from agent.domain.rules import Rule
from agent.domain.run import NewRun, ProposedCall, Turn
from agent.store import views
from agent.usecases import requests, runs
from agent.usecases.calls import Outcome
from signoff.values import Person
from tests.integration import alone
from tests.integration.asking import (
    ADA,
    GRACE,
    LINUS,
    TEAM,
    Asked,
    asked_as,
    ballot,
    column,
    question,
    reviewer,
    rule,
    write,
)


async def begun(db: Database, above: UUID | None = None, call: UUID | None = None) -> UUID:
    new = NewRun("refunds", "1", "refund order 7", "slack", ADA, "slack", TEAM, "C0AGENTS")
    new = replace(new, parent_run_id=above, parent_call_id=call)
    return (await runs.start(db, new)).run_id


async def proposed(db: Database, run_id: UUID) -> UUID:
    """The call that the run's next turn proposes."""
    leased = await alone.lease(db, run_id, "worker-1")
    assert leased is not None
    calls = (ProposedCall("call_0", "process_refund", '{"order_id": 9}'),)
    await alone.record_turn(db, leased.lease, Turn("Asked for.", calls, 10, leased.heard))
    async with db.connection() as connection:
        return (await views.calls(connection, run_id))[-1].id


async def asked_about(db: Database, run_id: UUID, call_id: UUID, terms: Rule | None = None) -> Asked:
    opened = await requests.open(db, question(run_id, call_id, terms or rule()))
    return await asked_as(db, opened.request_id, call_id, run_id)


async def refused(db: Database, asked: Asked, person: Person) -> Refusal:
    with pytest.raises(Refused) as caught:
        await alone.vote(db, ballot(asked, reviewer(person)))
    return caught.value.code


async def test_who_instructed_the_agent_does_not_review_what_it_then_proposes(database: Database) -> None:
    """A reply before the proposal makes its author a requester of it, for the vote and for what follows it."""
    run_id = await begun(database)
    await runs.add_message(database, run_id, "also refund order 9", GRACE, "m-1")
    asked = await asked_about(database, run_id, await proposed(database, run_id))
    assert await refused(database, asked, GRACE) is Refusal.INSTRUCTED
    recorded = "SELECT detail ->> 'refusal' FROM audit_event WHERE event = 'vote.refused'"
    assert await column(database, recorded) == ["instructed"]
    assert (await alone.vote(database, ballot(asked, reviewer(LINUS)))).status == "approved"
    claim = await alone.claim(database, asked.call_id, worker="w", idempotent=False)
    assert claim is not None
    await alone.report(database, claim, Outcome(ExecutionStatus.IN_DOUBT, "the line went dead"))
    with pytest.raises(Refused) as caught:
        await requests.settle(database, claim.execution_id, reviewer(GRACE), "retry")
    assert caught.value.code is Refusal.INSTRUCTED
    await requests.settle(database, claim.execution_id, reviewer(LINUS), "done")


async def test_what_is_said_after_the_proposal_or_where_it_is_allowed_takes_no_right(
    database: Database,
) -> None:
    """A question while a request waits takes nobody's vote, nor do words where people may review their own."""
    run_id = await begun(database)
    asked = await asked_about(database, run_id, await proposed(database, run_id))
    await runs.add_message(database, run_id, "why this one?", GRACE, "m-1")
    assert (await alone.vote(database, ballot(asked, reviewer(GRACE)))).status == "approved"
    run_id = await begun(database)
    await runs.add_message(database, run_id, "also refund order 9", GRACE, "m-2")
    own = rule(prevent_self_review=False)
    asked = await asked_about(database, run_id, await proposed(database, run_id), own)
    assert (await alone.vote(database, ballot(asked, reviewer(GRACE)))).status == "approved"


async def test_words_to_the_run_above_count_for_the_run_below(database: Database) -> None:
    """Who wrote to a run before the proposal does not review what a run of its family proposes, at any depth."""
    top = await begun(database)
    await runs.add_message(database, top, "also refund order 9", GRACE, "m-1")
    handed = await proposed(database, top)
    await runs.add_message(database, top, "how is it going?", LINUS, "m-2")
    middle = await begun(database, top, handed)
    below = await begun(database, middle, await proposed(database, middle))
    asked = await asked_about(database, below, await proposed(database, below))
    await runs.add_message(database, top, "and now?", EVE, "m-3")
    assert await refused(database, asked, GRACE) is Refusal.INSTRUCTED
    assert await refused(database, asked, LINUS) is Refusal.INSTRUCTED
    assert (await alone.vote(database, ballot(asked, reviewer(EVE)))).status == "approved"


EVE = Person(TEAM, "U0EVE")


@pytest.mark.parametrize("status", ["failed", "denied"])
async def test_an_ended_run_is_taken_up_by_those_who_may_resume_it(database: Database, status: str) -> None:
    """A reply of anybody else, or of nobody known, is refused on record and reaches no transcript."""
    run_id = await begun(database)
    end = "UPDATE agent_run SET status = CAST(:to AS run_status), cause = 'over' WHERE id = :id"

    async def words(
        author: Person | None, n: int, *, principal: str | None = None, administrator: bool = False
    ) -> str:
        await write(database, end, to=status, id=run_id)
        heard = runs.add_message(
            database, run_id, "go on", author, f"m-{n}", principal=principal, administrator=administrator
        )
        with suppress(Refused):
            assert await heard
        return str((await column(database, "SELECT status::text FROM agent_run"))[0])

    others = [await words(GRACE, 1), await words(None, 2), await words(GRACE, 3, principal="key:other")]
    assert others == [status] * 3
    assert await column(database, "SELECT count(*) FROM run_message") == [1]
    recorded = "SELECT detail ->> 'refusal' FROM audit_event WHERE event = 'resume.refused'"
    assert await column(database, recorded) == ["not_yours_to_take_up"] * 3
    assert [await words(ADA, 4), await words(GRACE, 5, administrator=True)] == ["working"] * 2
    assert await words(GRACE, 6, principal="slack") == "working"


async def test_a_completed_run_goes_on_with_anybody(database: Database) -> None:
    """Everybody who may write in its thread can continue a run that has answered."""
    run_id = await begun(database)
    leased = await alone.lease(database, run_id, "w")
    assert leased is not None
    await alone.record_turn(database, leased.lease, Turn("Done.", (), 10, leased.heard))
    assert await runs.add_message(database, run_id, "and order 9?", GRACE, "m-1")
    assert await column(database, "SELECT status::text FROM agent_run") == ["working"]

"""Executions in doubt: who may settle them, and that a word which does not count is on record."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.exc import IntegrityError

from agent.database.pools import Database
from agent.domain.errors import Refusal, Refused
from agent.domain.people import Standing
from agent.domain.request import ExecutionStatus
from agent.store import views
from agent.usecases import calls, requests, runs
from agent.usecases.calls import Claim, Outcome
from signoff.errors import Conflict
from signoff.values import Action
from slackbot.cards import request_card
from tests.integration import alone, invariants
from tests.integration.asking import (
    ADA,
    GRACE,
    LINUS,
    REVIEWERS,
    Asked,
    ask,
    ballot,
    claim_approved,
    column,
    exclude,
    reviewer,
    rows,
    rule,
    start,
    write,
)

IN_DOUBT = Outcome(ExecutionStatus.IN_DOUBT, "the line went dead")
ACTION = Action("process_refund", "1", {"order_id": 0})
REFUSED = (
    "SELECT subject, actor, detail - 'execution' FROM audit_event WHERE event = '%s.refused' ORDER BY seq"
)


async def unasked_doubt(database: Database, *, requester: Any = ADA) -> tuple[UUID, Claim]:
    """A call that policy let run, and whose outcome nobody knows."""
    run_id, (call_id,) = await start(database)
    if requester is None:
        await write(database, "UPDATE agent_run SET requester_team_id = NULL, requester_user_id = NULL")
    await runs.pass_call(database, call_id, ACTION)
    claim = await alone.claim(database, call_id, worker="w", idempotent=False)
    assert claim is not None
    await alone.report(database, claim, IN_DOUBT)
    return run_id, claim


async def doubt_of_two(database: Database) -> tuple[Asked, Claim]:
    """An attempt in doubt at what two people have approved."""
    asked = await ask(database, rule(approvals_required=2))
    await alone.vote(database, ballot(asked, reviewer(LINUS)))
    await alone.vote(database, ballot(asked, reviewer(GRACE), others=[reviewer(LINUS)]))
    claim = await alone.claim(database, asked.call_id, worker="w", idempotent=False)
    assert claim is not None
    await alone.report(database, claim, IN_DOUBT)
    return asked, claim


async def refused(work: Any) -> Refusal:
    with pytest.raises(Refused) as caught:
        await work
    return caught.value.code


@pytest.mark.parametrize("requester", [ADA, None], ids=["with a requester", "without"])
async def test_an_administrator_settles_what_nobody_was_asked_about(
    database: Database, requester: Any
) -> None:
    """So a run that nobody asked for does not wait for ever; a reviewer's role is no right to it."""
    _, claim = await unasked_doubt(database, requester=requester)
    settle = requests.settle(database, claim.execution_id, reviewer(GRACE), "done")
    assert await refused(settle) is Refusal.NOT_YOURS_TO_SETTLE
    gone = Standing(LINUS, refusal=Refusal.DEACTIVATED)
    settle = requests.settle(database, claim.execution_id, gone, "done", administrator=True)
    assert await refused(settle) is Refusal.DEACTIVATED
    await requests.settle(database, claim.execution_id, Standing(LINUS), "done", administrator=True)
    assert await column(database, "SELECT answer_kind::text FROM tool_call") == ["done_by_person"]
    recorded = await rows(
        database,
        "SELECT body ->> 'user', body ->> 'text' FROM delivery WHERE body ->> 'line' = 'settled'",
    )
    assert recorded == [("U0LINUS", "done")]


async def test_an_administrator_has_no_say_where_people_were_asked(database: Database) -> None:
    """What went through a checkpoint is settled by those who may review it."""
    asked = await ask(database)
    claim = await claim_approved(database, asked)
    await alone.report(database, claim, IN_DOUBT)
    settle = requests.settle(database, claim.execution_id, Standing(LINUS), "done", administrator=True)
    assert await refused(settle) is Refusal.NOT_A_REVIEWER


async def test_a_word_counts_only_in_the_run_s_own_thread(database: Database) -> None:
    """A button that was copied elsewhere, or a call that has a card, is refused in a thread."""
    run_id, claim = await unasked_doubt(database)
    await write(database, "UPDATE agent_run SET thread_ts = '1700000000.000100' WHERE id = :id", id=run_id)
    for thread in (("C0AGENTS", "1700000000.999999"), ("C0REVIEW", "1700000000.000100"), ("", "")):
        settle = requests.settle(database, claim.execution_id, Standing(ADA), "done", thread=thread)
        assert await refused(settle) is Refusal.WRONG_PLACE
    here = ("C0AGENTS", "1700000000.000100")
    await requests.settle(database, claim.execution_id, Standing(ADA), "retry", thread=here)
    assert await column(database, "SELECT state::text FROM tool_call") == ["ready"]


async def test_refused_settlements_are_on_record(database: Database) -> None:
    """The call's audit chain records who tried to settle, on which path and why it did not count."""
    run_id, claim = await unasked_doubt(database)
    for who in (reviewer(GRACE), Standing(LINUS, refusal=Refusal.GUEST)):
        with pytest.raises(Refused):
            await requests.settle(database, claim.execution_id, who, "retry", path="slack_thread")
    by = {"verdict": "retry", "path": "slack_thread"}
    assert await rows(database, REFUSED % "settlement") == [
        (f"run:{run_id}", f"slack:{GRACE}", by | {"refusal": "not_yours_to_settle"}),
        (f"run:{run_id}", f"slack:{LINUS}", by | {"refusal": "guest"}),
    ]
    assert await column(database, "SELECT count(*) FROM settlement") == [0]


async def test_refused_settlements_of_requests_are_on_record_too(database: Database) -> None:
    """In the request's chain, where its votes are."""
    asked = await ask(database)
    claim = await claim_approved(database, asked)
    await alone.report(database, claim, IN_DOUBT)
    with pytest.raises(Refused):
        await requests.settle(database, claim.execution_id, Standing(ADA, frozenset({REVIEWERS})), "done")
    ((subject, actor, detail),) = await rows(database, REFUSED % "settlement")
    assert (subject, actor) == (f"request:{asked.request_id}", f"slack:{ADA}")
    assert detail == {"verdict": "done", "path": "direct", "refusal": "self_review"}


async def test_refused_wishes_to_ask_again_are_on_record(database: Database) -> None:
    """Everybody but its requester, or a person who may not act at all, is refused, and the audit chain records it."""
    asked = await ask(database, rule(timeout=timedelta(milliseconds=1)))
    await requests.expire_due(database)
    wish = requests.ask_again(database, asked.request_id, reviewer(GRACE), path="slack_button")
    assert await refused(wish) is Refusal.NOT_YOURS_TO_ASK
    gone = Standing(ADA, refusal=Refusal.DEACTIVATED)
    assert await refused(requests.ask_again(database, asked.request_id, gone)) is Refusal.DEACTIVATED
    subject = f"request:{asked.request_id}"
    assert await rows(database, REFUSED % "ask_again") == [
        (subject, f"slack:{GRACE}", {"path": "slack_button", "refusal": "not_yours_to_ask"}),
        (subject, f"slack:{ADA}", {"path": "direct", "refusal": "deactivated"}),
    ]
    assert await column(database, "SELECT count(*) FROM tool_call") == [1]


async def test_the_run_s_thread_says_who_may_settle(database: Database) -> None:
    """The line of a call without a card names its tool and execution, and calls the requester."""
    _, claim = await unasked_doubt(database)
    lines = await rows(
        database,
        "SELECT channel_id, body ->> 'execution', body ->> 'tool', body -> 'tell' ->> 'user' FROM delivery"
        " WHERE body ->> 'line' = 'in_doubt'",
    )
    assert lines == [("C0AGENTS", str(claim.execution_id), "process_refund", ADA.user_id)]


async def test_retry_takes_the_quorum_of_its_request(database: Database) -> None:
    """One person's Retry is a vote; the second one's begins another attempt; who lost the right does not count."""
    _, claim = await doubt_of_two(database)
    grace, linus = reviewer(GRACE), reviewer(LINUS)
    assert await requests.settle(database, claim.execution_id, grace, "retry") == 1
    assert await requests.settle(database, claim.execution_id, grace, "retry") == 1
    assert await column(database, "SELECT state::text FROM tool_call") == ["in_doubt"]
    with pytest.raises(requests.NewVoters):
        await requests.settle(database, claim.execution_id, linus, "retry")
    gone = [Standing(GRACE)]
    assert await requests.settle(database, claim.execution_id, linus, "retry", others=gone) == 1
    assert await column(database, "SELECT count(*) FROM settlement") == [0]
    assert await requests.settle(database, claim.execution_id, linus, "retry", others=[grace]) == 0
    assert await column(database, "SELECT state::text FROM tool_call") == ["ready"]
    recorded = "SELECT actor FROM audit_event WHERE event LIKE 'execution.retry_wanted' ORDER BY seq"
    assert await column(database, recorded) == [f"slack:{GRACE}", f"slack:{LINUS}"]
    assert await invariants.broken(database) == []


async def test_one_person_takes_an_attempt_as_done(database: Database) -> None:
    """It has no effect, so it takes one person, also where two had to approve."""
    _, claim = await doubt_of_two(database)
    await requests.settle(database, claim.execution_id, reviewer(GRACE), "done")
    assert await column(database, "SELECT answer_kind::text FROM tool_call") == ["done_by_person"]


async def test_whose_approval_does_not_count_cannot_retry(database: Database) -> None:
    """An editor settles a doubt as done, but causes no second effect."""
    asked, claim = await doubt_of_two(database)
    await exclude(database, asked.request_id, GRACE, "editor")
    retry = requests.settle(database, claim.execution_id, reviewer(GRACE), "retry")
    assert await refused(retry) is Refusal.EDITOR_ALONE
    await requests.settle(database, claim.execution_id, reviewer(GRACE), "done")


async def test_a_late_success_ends_a_doubt(database: Database) -> None:
    """The worker that was thought lost reports: the call has its answer, the card says so, and Retry is gone."""
    asked = await ask(database)
    claim = await claim_approved(database, asked)
    await write(database, "UPDATE execution SET lease_until = clock_timestamp()")
    assert await calls.rescue(database) == 1
    done = Outcome(ExecutionStatus.SUCCEEDED, "refunded")
    assert await alone.report(database, replace(claim, worker="another"), done) is False
    assert await alone.report(database, claim, done)
    assert await alone.report(database, claim, done)
    assert await rows(database, "SELECT state::text, answer_kind::text, answer FROM tool_call") == [
        ("answered", "result", "refunded")
    ]
    with pytest.raises(Conflict):
        await requests.settle(database, claim.execution_id, reviewer(GRACE), "retry")
    async with database.connection() as connection:
        view = await views.request_view(connection, asked.request_id)
    assert view is not None
    card = str(request_card(view).blocks)
    assert "it was in doubt until its worker reported" in card
    assert "Retry" not in card
    assert await invariants.broken(database) == []


async def test_a_late_success_changes_nothing_that_a_person_has_settled(database: Database) -> None:
    """After Retry it is kept beside the outcome, in the database's own judgement too."""
    asked = await ask(database)
    claim = await claim_approved(database, asked)
    await alone.report(database, claim, IN_DOUBT)
    await requests.settle(database, claim.execution_id, reviewer(GRACE), "retry")
    assert not await alone.report(database, claim, Outcome(ExecutionStatus.SUCCEEDED, "late"))
    assert await column(database, "SELECT late_result FROM execution") == ["succeeded: late"]
    with pytest.raises(IntegrityError, match="keeps its outcome"):
        await write(database, "UPDATE execution SET status = 'succeeded'")


async def test_a_late_success_nobody_was_asked_about_is_told_in_the_thread(database: Database) -> None:
    """Its run's thread says that nobody has to settle it any more."""
    _, claim = await unasked_doubt(database)
    assert await alone.report(database, claim, Outcome(ExecutionStatus.SUCCEEDED, "done"))
    sql = "SELECT body ->> 'text' FROM delivery WHERE body ->> 'line' = 'settled'"
    assert await column(database, sql) == ["succeeded"]
    assert await invariants.broken(database) == []

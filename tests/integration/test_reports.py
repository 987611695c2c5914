"""What a report counts, and of whose requests."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID, uuid4

import psycopg
import pytest

from agent.database.driver import sql_of
from agent.database.pools import Database
from agent.domain.answers import AnswerForm
from agent.domain.reports import AGES, LEFT, TOOK, Decisions, Outcomes, Report, Share
from agent.domain.request import Together
from agent.store import views
from agent.store.outbox import Destination
from agent.store.views import reports
from agent.store.views.reports import ReportScope
from agent.usecases import requests
from signoff.values import Person, Risk
from slackbot.cards.stats import stats
from tests.integration import alone
from tests.integration.asking import (
    ADA,
    GRACE,
    LINUS,
    TEAM,
    Asked,
    ask,
    ballot,
    column,
    reviewer,
    rule,
    write,
)

OPS = Destination(TEAM, "C0OPS")
MALLORY_ONLY = rule(checkpoint_id="deletions", approvers=("U0MALLORY",), risk="high")
FINANCE = ((("S0FINANCE",), "C0REVIEW"),)


async def read(db: Database, scope: ReportScope, days: int = 7) -> Report:
    async with db.connection() as connection:
        return await views.report(connection, scope, days)


@dataclass
class Week:
    """What was asked and decided: three by the finance group, one that others see, one still waiting."""

    unread: Asked
    read: Asked
    paged: Asked
    other: Asked
    waiting: Asked


@pytest.fixture
async def week(database: Database) -> Week:
    """Grace approves two, the second on its page; Linus rejects one after he opened its Details."""
    made = Week(
        await ask(database),
        await ask(database, rule(risk="high")),
        await ask(database),
        await ask(database, MALLORY_ONLY, destination=OPS, requester=LINUS),
        await ask(database),
    )
    await alone.vote(database, ballot(made.unread, reviewer(GRACE)))
    await requests.create_place(database, made.read.request_id, "modal", LINUS)
    await alone.vote(database, ballot(made.read, reviewer(LINUS), "reject"))
    await requests.create_place(database, made.read.request_id, "home", GRACE)
    await alone.vote(database, ballot(made.paged, reviewer(GRACE), path="page", place=None))
    await requests.withdraw(database, made.other.request_id, LINUS, None)
    older = "UPDATE approval_request SET created_at = created_at - interval '2 hours' WHERE id = :id"
    await write(database, older, id=made.waiting.request_id)
    return made


async def test_an_administrator_reads_of_everything(database: Database, week: Week) -> None:
    """What waits by age and deadline, outcomes by day, agent and rule, times, votes by person: each with its whole."""
    found = await read(database, ReportScope(ADA, everything=True))
    assert found.everything
    assert dict(zip(AGES.names, found.waiting_by_age, strict=True))["1 to 4 h"] == found.waiting == 1
    assert dict(zip(LEFT.names, found.waiting_by_deadline, strict=True))["4 to 24 h"] == 1
    assert found.outcomes == Outcomes({"approved": 2, "rejected": 1, "cancelled": 1})
    assert len(found.by_day) == 7
    assert [outcomes.total for _, outcomes in found.by_day] == [0] * 6 + [4]
    assert dict(zip(TOOK.names, found.took, strict=True))["under 1 min"] == sum(found.took) == 3
    assert found.median is not None
    assert found.slowest is not None
    assert 0 < found.median <= found.slowest < 60
    assert [(each.name, each.outcomes.total) for each in found.agents] == [("refunds", 4)]
    assert [(each.name, each.outcomes) for each in found.rules] == [
        ("refunds", Outcomes({"approved": 2, "rejected": 1})),
        ("deletions", Outcomes({"cancelled": 1})),
    ]
    assert found.rules[1].median is None  # nobody decided
    assert not found.cut


async def test_a_vote_without_a_look_at_details_is_counted(database: Database, week: Week) -> None:
    """Opened before in Slack, or voted on the page: a look. App Home, or Details opened after the vote: none."""
    await requests.create_place(database, week.unread.request_id, "modal", GRACE)
    found = await read(database, ReportScope(ADA, everything=True))
    assert [(each.person, each.votes, each.unread) for each in found.reviewers] == [
        (GRACE, 2, 1),
        (LINUS, 1, 0),
    ]
    assert str(found.unread) == "1 of 3 (33 %)"
    assert dict(found.unread_by_risk) == {Risk.MEDIUM: Share(1, 2), Risk.HIGH: Share(0, 1)}


async def test_answers_are_no_votes_on_actions(database: Database, week: Week) -> None:
    """An answer authorises nothing: it is no vote without a look at Details, and its person is no reviewer by it."""
    form = AnswerForm.of({"enum": ["eu", "us"]})
    for who in (GRACE, ADA):
        asked = await ask(database, answer_form=form)
        await alone.vote(database, ballot(asked, reviewer(who), "answer", answer=form.read("eu")))
    found = await read(database, ReportScope(ADA, everything=True))
    assert [(each.person, each.votes, each.unread) for each in found.reviewers] == [
        (GRACE, 2, 1),
        (LINUS, 1, 0),
    ]
    assert str(found.unread) == "1 of 3 (33 %)"


async def by_form(db: Database, person: Person, *decided: Asked, form: UUID | None = None) -> None:
    """One form's approval of each, two hours after the question."""
    form = form or uuid4()
    for each in decided:
        older = "UPDATE approval_request SET created_at = created_at - interval '2 hours' WHERE id = :id"
        await write(db, older, id=each.request_id)
        shown = "SELECT digest FROM request_revision WHERE request_id = :id"
        (digest,) = await column(db, shown, id=each.request_id)
        await alone.vote(db, ballot(each, reviewer(person), together=Together(form, digest)))


async def test_decisions_together_are_counted_apart(database: Database, week: Week) -> None:
    """What one form decided with others, and how fast, beside the rest: in the report of whoever may see it, even if
    they see only one of them.
    """
    await by_form(database, GRACE, await ask(database), await ask(database, requester=LINUS))
    found = await read(database, ReportScope(ADA, everything=True))
    assert (found.together.number, found.alone.number, found.outcomes.decided) == (2, 3, 5)
    assert found.together.median == pytest.approx(7200, abs=60)
    assert found.alone.median == pytest.approx(0, abs=60)
    assert "Decided together: 2 of 5 (40 %); median 2 h, alone " in stats(found).text
    of_linus = await read(database, ReportScope(LINUS))
    assert (of_linus.together.number, of_linus.alone.number) == (1, 1)


async def test_a_form_that_decided_one_decided_it_alone(database: Database) -> None:
    """What is together is several decisions: a form with one tick, or whose other votes did not decide, had one."""
    await by_form(database, GRACE, await ask(database))
    await by_form(database, LINUS, await ask(database), await ask(database, rule(approvals_required=2)))
    found = await read(database, ReportScope(ADA, everything=True))
    assert (found.together, found.alone.number) == (Decisions(), 2)
    assert "Decided together" not in stats(found).text


async def test_two_people_with_one_form_decided_alone(database: Database) -> None:
    """The form's id is what its sender claims: one decision each of two people is none together."""
    form = uuid4()
    for person in (GRACE, LINUS):
        await by_form(database, person, await ask(database), form=form)
    found = await read(database, ReportScope(ADA, everything=True))
    assert (found.together, found.alone.number) == (Decisions(), 2)


async def test_others_read_of_what_they_may_see(database: Database, week: Week) -> None:
    """Of the audiences that they are in, and of their own requests; of nothing else is even a number told."""
    async with database.connection() as connection:
        found = await views.report_audiences(connection, TEAM, 7)
    assert sorted(found) == [*FINANCE, (("U0MALLORY",), "C0OPS")]
    of_finance = await read(database, ReportScope(GRACE, audiences=FINANCE))
    assert not of_finance.everything
    assert of_finance.outcomes == Outcomes({"approved": 2, "rejected": 1})
    assert of_finance.waiting == 1
    requester = await read(database, ReportScope(LINUS))  # asked for one, decided another
    assert requester.outcomes == Outcomes({"rejected": 1, "cancelled": 1})
    assert [each.person for each in requester.reviewers] == [LINUS]
    assert requester.waiting == 0


async def test_a_report_covers_its_days_and_no_more(
    database: Database, week: Week, owner: psycopg.Connection[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was decided before the first day is left out; what is more than can be read is left out, and said to be."""
    with owner.transaction():
        owner.execute("SET LOCAL session_replication_role = replica")  # outcomes are final for everybody else
        owner.execute(
            "UPDATE approval_request SET decided_at = decided_at - interval '8 days' WHERE id = %s",
            [week.unread.request_id],
        )
    assert (await read(database, ReportScope(ADA, everything=True))).outcomes.of("approved") == 1
    month = await read(database, ReportScope(ADA, everything=True), 30)
    assert month.outcomes.of("approved") == 2
    assert [outcomes.total for _, outcomes in month.by_day if outcomes.total] == [1, 3]
    monkeypatch.setattr(reports, "MOST", 2)
    cut = await read(database, ReportScope(ADA, everything=True), 30)
    assert (cut.cut, cut.outcomes.total) == (True, 2)
    assert not cut.waiting_cut
    for _ in range(2):
        await ask(database)
    waiting = await read(database, ReportScope(ADA, everything=True))
    assert (waiting.waiting, waiting.waiting_cut) == (2, True)
    assert "Waiting now: at least 2" in stats(waiting).text


async def test_a_report_of_nothing(database: Database) -> None:
    """An empty workspace has a report, without percentages of nothing."""
    found = await read(database, ReportScope(ADA, everything=True))
    assert (found.waiting, found.outcomes, found.median, str(found.unread)) == (0, Outcomes(), None, "none")


async def test_a_report_reads_through_indexes(database: Database, owner: psycopg.Connection[object]) -> None:
    """No table is read from end to end: outcomes come from the index by time, what belongs to them by its keys."""
    values = ReportScope(GRACE, audiences=FINANCE).parameters() | {
        "since": "2026-01-01",
        "until": "2026-02-01",
        "most": 10,
        "by_people": ["approved"],
        "ages": [1],
        "left": [1],
        "took": [1],
    }
    with owner.transaction():
        owner.execute("SET LOCAL enable_seqscan = off")
        for statement in (reports._AUDIENCES, reports._WAITING, reports._DECIDED):
            plan = "\n".join(str(line) for line in owner.execute(f"EXPLAIN {sql_of(statement)}", values))
            assert "Seq Scan on " not in plan, plan


@pytest.mark.parametrize(
    ("part", "whole", "words"),
    [
        (0, 0, "none"),
        (0, 9, "0 of 9 (0 %)"),
        (1, 9999, "1 of 9,999 (1 %)"),
        (9998, 9999, "9,998 of 9,999 (99 %)"),
        (9, 9, "9 of 9 (100 %)"),
    ],
)
def test_a_share_in_words(part: int, whole: int, words: str) -> None:
    """Always with its whole; nothing that happened is 0 %, and nothing that was missed makes 100 %."""
    assert str(Share(part, whole)) == words

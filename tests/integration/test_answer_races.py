"""Answers at the same moment as others, and as what ends their question: one counts, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.database.pools import Database
from agent.domain.answers import AnswerForm
from agent.domain.errors import Refusal, Refused
from agent.domain.people import Standing
from agent.domain.request import Ballot, RequestStatus
from agent.store import views
from agent.usecases import requests
from signoff.values import Person
from tests.integration import alone, invariants
from tests.integration.asking import ADA, GRACE, Asked, ask, ballot, column, reviewer, rows, rule, write
from tests.integration.crowd import CROWD
from tests.integration.on_record import put_terms_on_record
from tests.integration.test_races import sized
from tests.stress.rounds import counted

REGION = AnswerForm.of({"enum": ["eu", "us"]})
TWO_ALIKE = AnswerForm.of({"enum": ["eu", "us"]}, answers_required=2)


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[Database]:
    """The same database as another process sees it."""
    async with Database(database_url, application_name="signoff other") as opened:
        yield opened


def answer(asked: Asked, who: Standing, value: Any, form: AnswerForm = REGION, **changes: Any) -> Ballot:
    others = changes.pop("others", ())
    return ballot(asked, who, "answer", others, answer=form.read(value), **changes)


async def decision(db: Database, asked: Asked) -> tuple[str, Any]:
    view = await db.read(views.request_view, asked.request_id)
    assert view is not None
    return view.status.value, view.answer


@sized(4, 500)
async def test_of_ten_answers_one_counts(database: Database, other: Database, rounds: int) -> None:
    """Ten people answer differently, or reject, at once on two processes: one decides, nine read that."""
    said = ["eu", "us", "the moon", "mars", None] * 2
    for _ in counted(range(rounds)):
        asked = await ask(database, answer_form=REGION)
        ballots = [
            ballot(asked, who, "reject") if value is None else answer(asked, who, value)
            for who, value in zip(CROWD, said, strict=True)
        ]
        results = await asyncio.gather(
            *(
                alone.vote(db, each)
                for each, db in zip(ballots, itertools.cycle((database, other)), strict=False)
            ),
            return_exceptions=True,
        )
        refused = [each for each in results if isinstance(each, Refused)]
        assert {each.code for each in refused} == {Refusal.ALREADY_DECIDED}
        assert len(refused) == 9, results
        [(user, outcome)] = await rows(
            database,
            "SELECT user_id, outcome::text FROM decision WHERE request_id = :id",
            id=asked.request_id,
        )
        stored = "SELECT user_id FROM vote AS v JOIN answer AS w ON w.vote_id = v.id WHERE v.request_id = :id"
        answered = await column(database, stored, id=asked.request_id)
        assert answered == ([user] if outcome == "answered" else [])
        winner = said[[each.person.user_id for each in CROWD].index(user)]
        assert await decision(database, asked) == (outcome, winner)
    assert await column(database, "SELECT count(*) FROM execution") == [0]
    assert await invariants.broken(database) == []


@sized(4, 300)
async def test_two_equal_answers_are_of_two_people(database: Database, other: Database, rounds: int) -> None:
    """Whoever changes their answer while others give theirs is counted once; it ends with the first two alike."""
    dice = random.Random(7)
    for _ in counted(range(rounds)):
        asked = await ask(database, answer_form=TWO_ALIKE)
        people = CROWD[:4]

        async def says(who: Standing, db: Database, asked: Asked = asked, people: Any = people) -> None:
            for value in dice.choices(("eu", "us"), k=3):
                try:
                    await alone.vote(db, answer(asked, who, value, TWO_ALIKE, others=people))
                except Refused as refused:
                    assert refused.code is Refusal.ALREADY_DECIDED  # noqa: PT017
                    return

        await asyncio.gather(*(says(who, db) for who, db in zip(people, [database, other] * 2, strict=True)))
        status, value = await decision(database, asked)
        live = await rows(
            database,
            """SELECT v.user_id, convert_from(w.value, 'UTF8') FROM vote AS v JOIN answer AS w ON w.vote_id = v.id
               WHERE v.request_id = :id AND v.superseded_by IS NULL""",
            id=asked.request_id,
        )
        said = dict(live)
        assert len(said) == len(live), "one live answer of a person"
        if status == "answered":
            assert sorted(said.values()).count(f'"{value}"') == 2
        else:
            assert sorted(said.values()) in (['"eu"', '"us"'], ['"us"'], ['"eu"'])
    assert await invariants.broken(database) == []


@sized(5, 300)
async def test_an_answer_and_a_withdrawal_at_once(database: Database, other: Database, rounds: int) -> None:
    """The first ends the question; the other reads it, and a withdrawn question has no answer."""
    for _ in counted(range(rounds)):
        asked = await ask(database, answer_form=REGION)
        voted, withdrawn = await asyncio.gather(
            alone.vote(database, answer(asked, reviewer(GRACE), "eu")),
            requests.withdraw(other, asked.request_id, ADA, "not needed"),
            return_exceptions=True,
        )
        if isinstance(voted, Refused):
            assert (voted.code, withdrawn) == (Refusal.WITHDRAWN, True)
            assert await decision(database, asked) == ("cancelled", None)
        else:
            assert withdrawn is False
            assert await decision(database, asked) == ("answered", "eu")
        stored = await column(
            database, "SELECT count(*) FROM answer WHERE request_id = :id", id=asked.request_id
        )
        assert stored == [0 if withdrawn else 1]
    assert await invariants.broken(database) == []


@pytest.mark.parametrize("swept", [False, True])
async def test_an_expired_question_takes_no_answer(database: Database, swept: bool) -> None:
    """After the deadline an answer is late, whether or not a scheduler has come by."""
    asked = await ask(database, answer_form=REGION)
    await write(database, "UPDATE approval_request SET expires_at = created_at + interval '1 microsecond'")
    await put_terms_on_record(database)
    if swept:
        assert await requests.expire_due(database) == 1
    with pytest.raises(Refused) as refused:
        await alone.vote(database, answer(asked, reviewer(GRACE), "eu"))
    assert refused.value.code is Refusal.EXPIRED
    await requests.expire_due(database)
    assert await decision(database, asked) == ("expired", None)
    assert await column(database, "SELECT count(*) FROM answer") == [0]


FORGED = {
    "another revision": ({"revision": 2}, Refusal.STALE_REVISION),
    "a guest": ({"voter": Standing(GRACE, frozenset(), Refusal.GUEST)}, Refusal.GUEST),
    "an outsider": (
        {"voter": Standing(Person("T0ELSE", "U0EVE"), frozenset(), Refusal.EXTERNAL)},
        Refusal.EXTERNAL,
    ),
    "an outsider with the requester's id": (
        {"voter": Standing(Person("T0ELSE", ADA.user_id), frozenset({ADA.user_id}), Refusal.EXTERNAL)},
        Refusal.EXTERNAL,
    ),
    "a reviewer who was removed": (
        {"voter": Standing(GRACE, frozenset({"U0GRACE"}))},
        Refusal.NOT_A_REVIEWER,
    ),
    "an answer of another question": (
        {"answer": AnswerForm.of({"enum": ["x"]}).read("x")},
        Refusal.UNFIT_ANSWER,
    ),
    "an option called own words": (
        {"answer": AnswerForm.of({"enum": ["x"]}).read("eu")},
        Refusal.UNFIT_ANSWER,
    ),
    "no answer": ({"answer": None}, Refusal.UNFIT_ANSWER),
}


@pytest.mark.parametrize(("changes", "refusal"), FORGED.values(), ids=FORGED)
async def test_forged_answers_decide_nothing(
    database: Database, changes: dict[str, Any], refusal: Refusal
) -> None:
    """The deciding transaction trusts no door: each is refused, recorded, and leaves the question waiting."""
    form = AnswerForm.of({"enum": ["eu", "us"]}, other=False)
    asked = await ask(database, answer_form=form)
    forged = {"answer": form.read("eu"), **changes}
    who = forged.pop("voter", reviewer(GRACE))
    with pytest.raises(Refused) as refused:
        await alone.vote(database, ballot(asked, who, "answer", **forged))
    assert refused.value.code is refusal
    assert await decision(database, asked) == ("waiting", None)
    assert await column(database, "SELECT count(*) FROM vote") == [0]
    assert await column(database, "SELECT count(*) FROM audit_event WHERE event = 'vote.refused'") == [1]


@pytest.mark.parametrize("wanted", [None, REGION])
async def test_an_answer_and_an_approval_are_of_their_own_kind(
    database: Database, wanted: AnswerForm | None
) -> None:
    """An action is not answered and a question not approved, in the deciding transaction and in the tables."""
    asked = await ask(database, answer_form=wanted)
    wrong = answer(asked, reviewer(GRACE), "eu") if wanted is None else ballot(asked, reviewer(GRACE))
    with pytest.raises(Refused) as refused:
        await alone.vote(database, wrong)
    assert refused.value.code is Refusal.OTHER_VERDICT
    assert await decision(database, asked) == ("waiting", None)
    assert await column(database, "SELECT count(*) FROM vote") == [0]


async def test_an_answer_decides_for_nobody_elses(database: Database) -> None:
    """Two equal answers that count again, as a right came back, make no other answer the outcome."""
    asked = await ask(database, answer_form=TWO_ALIKE)
    first, second, third = CROWD[:3]
    await alone.vote(database, answer(asked, first, "eu", TWO_ALIKE))
    removed = Standing(first.person, frozenset())
    await alone.vote(database, answer(asked, second, "eu", TWO_ALIKE, others=[removed]))
    outcome = await alone.vote(database, answer(asked, third, "us", TWO_ALIKE, others=[first, second]))
    assert (outcome.status, outcome.approvals, outcome.needed) == (RequestStatus.WAITING, 2, 1)
    outcome = await alone.vote(database, answer(asked, first, "eu", TWO_ALIKE, others=[second, third]))
    assert outcome.status is RequestStatus.ANSWERED
    view = await database.read(views.request_view, asked.request_id)
    assert view is not None
    assert (view.answer, set(view.approved_by)) == ("eu", {first.person, second.person})
    assert await invariants.broken(database) == []


@pytest.mark.parametrize("wanted", [None, TWO_ALIKE])
async def test_a_reason_that_comes_with_a_repeated_vote_is_on_record(
    database: Database, wanted: AnswerForm | None
) -> None:
    """A repeated vote may decide, as another voter's right came back; it is stored with the reason of the decision."""
    terms = {} if wanted else {"approvals_required": 2}
    asked = await ask(database, rule(**terms), answer_form=wanted)
    first, second = CROWD[:2]

    def vote(who: Standing, others: list[Standing], **changes: Any) -> Ballot:
        if wanted is None:
            return ballot(asked, who, "approve", others, **changes)
        return answer(asked, who, "eu", wanted, others=others, **changes)

    await alone.vote(database, vote(first, []))
    await alone.vote(database, vote(second, [Standing(first.person, frozenset())]))
    outcome = await alone.vote(database, vote(second, [first], reason="and pay the other one"))
    assert outcome.status is (RequestStatus.ANSWERED if wanted else RequestStatus.APPROVED)
    live = "SELECT reason FROM vote WHERE user_id = :user AND superseded_by IS NULL"
    assert await column(database, live, user=second.person.user_id) == ["and pay the other one"]
    assert await column(database, "SELECT reason FROM decision") == ["and pay the other one"]
    if wanted is not None:
        assert await column(database, "SELECT own_words FROM answer ORDER BY vote_id") == [False, False, True]
    assert await invariants.broken(database) == []


async def test_a_removed_reviewers_answer_no_longer_counts(database: Database) -> None:
    """The first of two equal answers falls away with its author's right; a third person's completes the two."""
    asked = await ask(database, answer_form=TWO_ALIKE)
    first, second, third = CROWD[:3]
    await alone.vote(database, answer(asked, first, "eu", TWO_ALIKE))
    removed = Standing(first.person, frozenset())
    outcome = await alone.vote(database, answer(asked, second, "eu", TWO_ALIKE, others=[removed]))
    assert (outcome.status, outcome.approvals, outcome.needed) == (RequestStatus.WAITING, 1, 1)
    outcome = await alone.vote(database, answer(asked, third, "eu", TWO_ALIKE, others=[removed, second]))
    assert outcome.status is RequestStatus.ANSWERED
    view = await database.read(views.request_view, asked.request_id)
    assert view is not None
    assert (view.answer, set(view.approved_by)) == ("eu", {second.person, third.person})

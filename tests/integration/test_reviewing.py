"""What reviewers do besides saying yes or no: reasons, edits, places of their own; and what time does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from agent.database.pools import Database
from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.people import Standing
from agent.domain.request import Place, RequestStatus
from agent.domain.request_view import Change, RequestView
from agent.domain.rules import Rule
from agent.store import views
from agent.usecases import requests
from agent.usecases.requests import Edit, EditOutcome
from signoff.errors import Conflict
from signoff.values import Action, Person
from tests.integration import alone
from tests.integration.asking import (
    ADA,
    GRACE,
    LINUS,
    REVIEWERS,
    TEAM,
    Asked,
    ask,
    ballot,
    column,
    question,
    reviewer,
    rule,
)
from tests.integration.on_record import put_terms_on_record
from tests.statement_counter import counting

EVE = Person(TEAM, "U0EVE")
EDITABLE = {"allow_edit": True, "editor_may_approve": True}


def edited(asked: Asked, standing: Standing, arguments: dict[str, Any], **changes: Any) -> Edit:
    """A reviewer's edit on the card in the review channel."""
    fields: dict[str, Any] = {
        "request_id": asked.request_id,
        "revision": 1,
        "editor": standing,
        "action": Action("process_refund", "1", arguments),
        "facts": {"price": 900},
        "rule": None,
        "path": "slack_modal",
        "place": Place(asked.nonce, "channel", "C0REVIEW", "1700000000.000100"),
    }
    return Edit(**(fields | changes))


async def view_of(db: Database, asked: Asked) -> RequestView:
    async with db.connection() as connection:
        view = await views.request_view(connection, asked.request_id)
    assert view is not None
    return view


async def lines(db: Database, name: str) -> list[dict[str, Any]]:
    """The facts of the thread lines of that name."""
    return await column(db, "SELECT body FROM delivery WHERE body ->> 'line' = :name ORDER BY id", name=name)


async def pretend(db: Database, sql: str, **parameters: Any) -> None:
    """Move the clock of rows, as if time had passed."""
    async with db.transaction() as tx:
        await tx.execute(text(sql), parameters)
    await put_terms_on_record(db)


async def refused(coroutine: Any) -> Refusal:
    with pytest.raises(Refused) as caught:
        await coroutine
    return caught.value.code


# --- reasons


@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_an_answer_that_needs_a_reason_does_not_count_without_one(
    database: Database, verdict: str
) -> None:
    """`reason_required`: without words that can be seen the vote is refused, with words it decides."""
    asked = await ask(database, rule(reason_required=(verdict,)))
    vote = ballot(asked, reviewer(GRACE), verdict)
    assert await refused(alone.vote(database, vote)) is Refusal.REASON_REQUIRED
    for blank in ("  ", " \n", "\u200b", "\u2060", "\u3164", "\u2800", "\u0301", "\ufe0f", "\U000e0041"):
        assert await refused(alone.vote(database, replace(vote, reason=blank))) is Refusal.REASON_REQUIRED
    assert await column(database, "SELECT count(*) FROM vote") == [0]
    assert (await alone.vote(database, replace(vote, reason="checked"))).status is not RequestStatus.WAITING


async def test_the_other_answer_needs_none(database: Database) -> None:
    """A reason that is required for a rejection is not required for an approval."""
    asked = await ask(database, rule(reason_required=("reject",)))
    assert (await alone.vote(database, ballot(asked, reviewer(GRACE)))).status is RequestStatus.APPROVED


# --- edits


async def test_what_runs_is_what_the_reviewer_made_of_it(database: Database) -> None:
    """An edit is a revision of its own digest, told as a diff, and its arguments are the ones that are claimed."""
    asked = await ask(database, rule(**EDITABLE))
    made = await requests.edit(database, edited(asked, reviewer(GRACE), {"order_id": 8}))
    assert made == EditOutcome(2, editor_may_approve=True)
    view = await view_of(database, asked)
    assert (view.revision, view.editor, view.facts) == (2, GRACE, {"price": 900})
    assert view.changes == (Change("$.order_id", 0, 8),)
    assert view.context == {"task": "refund order 7"}
    await alone.vote(database, ballot(asked, reviewer(GRACE), revision=2))
    claim = await alone.claim(database, asked.call_id, worker="w", idempotent=False)
    assert claim is not None
    assert claim.action.arguments == {"order_id": 8}
    (line,) = await lines(database, "edited")
    assert line["user"] == GRACE.user_id
    assert line["changes"] == [{"path": "$.order_id", "before": 0, "after": 8}]
    events = await column(
        database, "SELECT event FROM audit_event WHERE subject LIKE 'request:%' ORDER BY seq"
    )
    assert events[:3] == ["request.opened", "request.edited", "vote.cast"]


async def test_a_checkpoint_without_edits_lets_nobody_edit(database: Database) -> None:
    """`allow_edit` is false by default: the edit is refused, recorded, and changes nothing."""
    asked = await ask(database)
    edit = edited(asked, reviewer(GRACE), {"order_id": 8})
    assert await refused(requests.edit(database, edit)) is Refusal.EDIT_NOT_ALLOWED
    assert (await view_of(database, asked)).revision == 1
    events = await column(database, "SELECT event FROM audit_event WHERE event LIKE 'edit.%'")
    assert events == ["edit.refused"]


@pytest.mark.parametrize(
    ("standing", "changes", "refusal"),
    [
        (Standing(GRACE), {}, Refusal.NOT_A_REVIEWER),
        (Standing(GRACE, frozenset({REVIEWERS}), Refusal.GUEST), {}, Refusal.GUEST),
        (reviewer(ADA), {}, Refusal.SELF_REVIEW),
        (reviewer(GRACE), {"revision": 2}, Refusal.STALE_REVISION),
        (reviewer(GRACE), {"place": Place("n" * 22, "channel", "C0REVIEW", "1.0")}, Refusal.UNKNOWN_REQUEST),
        (reviewer(GRACE), {"rule": rule(approvals_required=2, **EDITABLE)}, Refusal.STRICTER_CHECKPOINT),
        (reviewer(GRACE), {"rule": rule(risk="high", **EDITABLE)}, Refusal.STRICTER_CHECKPOINT),
        (reviewer(GRACE), {"rule": rule()}, Refusal.STRICTER_CHECKPOINT),
        (
            reviewer(GRACE),
            {"rule": rule(allow_edit=True, editor_may_approve=False)},
            Refusal.STRICTER_CHECKPOINT,
        ),
    ],
)
async def test_who_may_not_decide_may_not_edit_either(
    database: Database, standing: Standing, changes: dict[str, Any], refusal: Refusal
) -> None:
    """Right, revision and place are those of a vote, and an edit into a stricter checkpoint is refused."""
    asked = await ask(database, rule(**EDITABLE))
    edit = edited(asked, standing, {"order_id": 8}, **changes)
    assert await refused(requests.edit(database, edit)) is refusal
    assert (await view_of(database, asked)).revision == 1


async def test_an_edit_into_a_checkpoint_that_asks_no_more_is_taken(database: Database) -> None:
    """Another rule is fine as long as an approval under the first is enough for it."""
    asked = await ask(database, rule(**EDITABLE))
    same = rule(checkpoint_id="small-refunds", risk="low", **EDITABLE)
    edit = edited(asked, reviewer(GRACE), {"order_id": 8}, rule=same)
    assert (await requests.edit(database, edit)).revision == 2


@pytest.mark.parametrize(
    ("terms", "title"),
    [
        ({"description_template": "Refund {args.count} of order {args.order_id}"}, "Refund 2 of order 0"),
        (
            {"redact": ("order_id",)},
            "process_refund · count: 2, order_id: “⟦redacted by-policy, 1 character⟧”",
        ),
        ({"labels": (("order_id", "Order"),)}, "process_refund · count: 2, Order: 0"),
    ],
)
async def test_an_edit_has_the_title_of_the_rule_that_asks(
    database: Database, terms: dict[str, Any], title: str
) -> None:
    """It shows the edited action in its words and hides what it hides, also where policy would ask no more."""
    asked = await ask(database, rule(**terms, **EDITABLE))
    changed = edited(asked, reviewer(GRACE), {"order_id": 0, "count": 2}, rule=None)
    await requests.edit(database, changed)
    assert (await view_of(database, asked)).description == title


async def test_an_edit_voids_the_votes_on_what_was_there_before(database: Database) -> None:
    """Two of two: an approval of the first revision does not count for the second, and its card is stale."""
    asked = await ask(database, rule(approvals_required=2, **EDITABLE))
    await alone.vote(database, ballot(asked, reviewer(LINUS)))
    await requests.edit(database, edited(asked, reviewer(GRACE), {"order_id": 8}))
    assert (await view_of(database, asked)).votes == ()
    people = [reviewer(LINUS), reviewer(GRACE)]
    stale = ballot(asked, reviewer(EVE), others=people)
    assert await refused(alone.vote(database, stale)) is Refusal.STALE_REVISION
    voted = await alone.vote(database, ballot(asked, reviewer(GRACE), others=people, revision=2))
    assert (voted.status, voted.needed) == (RequestStatus.WAITING, 1)
    voted = await alone.vote(database, ballot(asked, reviewer(LINUS), others=people, revision=2))
    assert voted.status is RequestStatus.APPROVED


async def test_somebody_else_approves_an_edit(database: Database) -> None:
    """`editor_may_approve` is false by default: the editor may reject the edit, not approve it."""
    asked = await ask(database, rule(allow_edit=True))
    made = await requests.edit(database, edited(asked, reviewer(GRACE), {"order_id": 8}))
    assert not made.editor_may_approve
    own = ballot(asked, reviewer(GRACE), revision=2)
    assert await refused(alone.vote(database, own)) is Refusal.EDITOR_ALONE
    assert (await view_of(database, asked)).status is RequestStatus.WAITING
    voted = await alone.vote(database, ballot(asked, reviewer(LINUS), revision=2))
    assert voted.status is RequestStatus.APPROVED


async def test_the_same_edit_again_is_one_and_an_edit_of_nothing_is_none(database: Database) -> None:
    """Three deliveries of one submission make one revision; equal arguments make none."""
    asked = await ask(database, rule(**EDITABLE))
    edit = edited(asked, reviewer(GRACE), {"order_id": 8})
    made = await asyncio.gather(*(requests.edit(database, edit) for _ in range(3)))
    assert {each.revision for each in made} == {2}
    nothing = edited(asked, reviewer(LINUS), {"order_id": 8.0}, revision=2)
    assert await requests.edit(database, nothing) == EditOutcome(2, editor_may_approve=True, changed=False)
    assert await column(database, "SELECT max(n) FROM request_revision") == [2]


@pytest.mark.parametrize(
    "after",
    [
        {"to": {"card_number": "5555", "name": "Ann"}, "note": "n", "password": "p"},
        {"to": {"name": "Ann"}, "note": "n", "password": "p"},
        {"to": "Ann", "note": "n", "password": "p"},
        {"to": {"card_number": "4444", "name": "Ann"}, "note": "n", "password": "q"},
        {
            "to": {"card_number": "4444", "name": "Ann"},
            "note": "⟦redacted by-policy, 4 characters⟧",
            "password": "p",
        },
    ],
)
async def test_what_is_hidden_from_reviewers_cannot_be_changed_by_them(
    database: Database, after: dict[str, Any]
) -> None:
    """`redact`: a hidden value, one whose name says that it is secret, and a mask instead of a value are refused."""
    before = {"to": {"card_number": "4444", "name": "Ann"}, "note": "n", "password": "p"}
    terms = rule(redact=("card_number",), **EDITABLE)
    asked = await ask(database, terms, action=Action("process_refund", "1", before))
    assert (
        await refused(requests.edit(database, edited(asked, reviewer(GRACE), after))) is Refusal.REDACTED_EDIT
    )
    allowed = before | {"to": {"card_number": "4444", "name": "Bea"}}
    assert (await requests.edit(database, edited(asked, reviewer(GRACE), allowed))).revision == 2


async def test_an_edited_action_that_is_asked_anew_keeps_its_editor(database: Database) -> None:
    """When facts change after an approved edit, the new request still knows who must not approve it alone."""
    asked = await ask(database, rule(allow_edit=True))
    await requests.edit(database, edited(asked, reviewer(GRACE), {"order_id": 8}))
    await alone.vote(database, ballot(asked, reviewer(LINUS), revision=2))
    new = question(
        asked.run_id, asked.call_id, rule(allow_edit=True), order=8, client_id=f"{asked.call_id}:2"
    )
    opened = await requests.void_and_ask(database, asked.call_id, asked.request_id, new)
    async with database.connection() as connection:
        view = await views.request_view(connection, opened.request_id)
    assert view is not None
    anew = Asked(opened.request_id, asked.call_id, asked.run_id, view.place_nonce)
    assert (view.editor, view.changes) == (GRACE, (Change("$.order_id", 0, 8),))
    assert await refused(alone.vote(database, ballot(anew, reviewer(GRACE)))) is Refusal.EDITOR_ALONE


async def test_votes_and_edits_at_once_leave_one_story(database: Database) -> None:
    """A vote that waits for the lock sees the state behind it: votes on the old revision are stale, none is lost."""
    for _ in range(5):
        asked = await ask(database, rule(approvals_required=2, **EDITABLE))
        people = [reviewer(Person(TEAM, f"U{n}")) for n in range(6)]
        results = await asyncio.gather(
            requests.edit(database, edited(asked, people[0], {"order_id": 8})),
            *(alone.vote(database, ballot(asked, each, others=people[1:2])) for each in people[1:]),
            return_exceptions=True,
        )
        codes = {result.code for result in results if isinstance(result, Refused)}
        assert codes <= {Refusal.STALE_REVISION, Refusal.ALREADY_DECIDED}
        view = await view_of(database, asked)
        assert (view.decision is None) == (view.revision == 2)


async def test_nobody_is_asked_anew_for_a_run_that_has_ended(database: Database) -> None:
    """An approved call of an ended run whose facts have changed is not put to people once more."""
    asked = await ask(database)
    await alone.vote(database, ballot(asked, reviewer(GRACE)))
    await pretend(database, "UPDATE agent_run SET status = 'failed', cause = 'the model is gone'")
    new = question(asked.run_id, asked.call_id, rule(), client_id=f"{asked.call_id}:2")
    with pytest.raises(Conflict):
        await requests.void_and_ask(database, asked.call_id, asked.request_id, new)
    assert await column(database, "SELECT count(*) FROM approval_request") == [1]


# --- the link


async def test_the_view_has_the_link_of_the_present_revision(database: Database) -> None:
    """`link_template` is rendered from the arguments that the card shows, URL-encoded."""
    template = "https://shop.example/orders/{args.order_id}?price={facts.price}"
    asked = await ask(database, rule(link_template=template, **EDITABLE))
    assert (await view_of(database, asked)).link == "https://shop.example/orders/0?price=1500"
    await requests.edit(database, edited(asked, reviewer(GRACE), {"order_id": "7/../../x y"}))
    assert (
        await view_of(database, asked)
    ).link == "https://shop.example/orders/7%2F..%2F..%2Fx%20y?price=900"


# --- time

REMINDED = {"timeout": timedelta(hours=10), "remind_at": (0.5, 0.9)}


async def pass_hours(db: Database, hours: float) -> None:
    """Everything about waiting requests lies so much further back."""
    await pretend(
        db,
        "UPDATE approval_request SET created_at = created_at - make_interval(mins => :m),"
        " expires_at = expires_at - make_interval(mins => :m), remind_next = remind_next - make_interval(mins => :m)",
        m=int(hours * 60),
    )


async def test_reviewers_are_reminded_once_at_each_fraction(database: Database) -> None:
    """`remind_at`: nothing before the first fraction, one word at each, whatever number of processes look."""
    await ask(database, rule(**REMINDED))
    assert await requests.remind_due(database) == 0
    await pass_hours(database, 5.1)
    counts = await asyncio.gather(*(requests.remind_due(database) for _ in range(3)))
    assert sum(counts) == 1
    await pass_hours(database, 4)
    assert await requests.remind_due(database) == 1
    assert await requests.remind_due(database) == 0
    reminders = await lines(database, "reminder")
    assert [line["people"] for line in reminders] == [[REVIEWERS]] * 2
    (deadline,) = await column(database, "SELECT expires_at FROM approval_request")
    assert reminders[-1]["at"] == deadline.isoformat()
    events = await column(
        database, "SELECT detail ->> 'reminder' FROM audit_event WHERE event = 'request.reminded' ORDER BY 1"
    )
    assert events == ["1", "2"]


async def test_fractions_that_nobody_looked_at_are_one_reminder(database: Database) -> None:
    """After an outage there is one word, not one for every fraction; after the deadline there is none."""
    await ask(database, rule(**REMINDED))
    late = await ask(database, rule(**REMINDED))
    await pass_hours(database, 9.5)
    await pretend(
        database,
        "UPDATE approval_request SET expires_at = clock_timestamp(), created_at = created_at - interval '1 h'"
        " WHERE id = :id",
        id=late.request_id,
    )
    await requests.remind_due(database)
    assert await requests.remind_due(database) == 0
    assert len(await lines(database, "reminder")) == 1


async def test_only_those_who_can_still_help_are_mentioned(database: Database) -> None:
    """Not who has voted, not the requester, not any editor of what is to be approved."""
    zoe = Person(TEAM, "U0ZOE")
    people = (ADA, GRACE, LINUS, zoe, EVE)
    terms = rule(
        approvers=tuple(person.user_id for person in people),
        approvals_required=2,
        allow_edit=True,
        **REMINDED,
    )
    asked = await ask(database, terms)
    standing = {person: Standing(person, frozenset({person.user_id})) for person in people}
    await requests.edit(database, edited(asked, standing[LINUS], {"order_id": 8}))
    await requests.edit(database, edited(asked, standing[zoe], {"order_id": 9}, revision=2))
    await alone.vote(database, ballot(asked, standing[GRACE], revision=3))
    await pass_hours(database, 6)
    assert await requests.remind_due(database) == 1
    (line,) = await lines(database, "reminder")
    assert line["people"] == [EVE.user_id]


async def test_for_a_channel_those_are_reminded_whom_the_card_mentions(database: Database) -> None:
    """A channel's members cannot be mentioned one by one; `notify` replaces them."""
    await ask(database, rule(approvers=("channel",), notify=("S0ONCALL",), **REMINDED))
    await pass_hours(database, 6)
    await requests.remind_due(database)
    (line,) = await lines(database, "reminder")
    assert line["people"] == ["S0ONCALL"]


async def test_what_was_decided_is_not_reminded_of(database: Database) -> None:
    """A reminder is for requests that wait."""
    asked = await ask(database, rule(**REMINDED))
    await alone.vote(database, ballot(asked, reviewer(GRACE)))
    await pass_hours(database, 6)
    assert await requests.remind_due(database) == 0


BOSS = Person(TEAM, "U0BOSS")
ESCALATED = {"on_timeout": "escalate", "escalate_to": ("U0BOSS",), **REMINDED}


async def test_at_the_deadline_more_people_may_decide_and_have_as_long(database: Database) -> None:
    """`on_timeout`: the boss is refused before and counts after; the reviewers still count; it escalates once."""
    asked = await ask(database, rule(**ESCALATED))
    boss = Standing(BOSS, frozenset({"U0BOSS"}))
    assert await refused(alone.vote(database, ballot(asked, boss))) is Refusal.NOT_A_REVIEWER
    await pass_hours(database, 11)
    assert await refused(alone.vote(database, ballot(asked, reviewer(GRACE)))) is Refusal.EXPIRED
    counts = await asyncio.gather(*(requests.expire_due(database) for _ in range(3)))
    assert sum(counts) == 1
    view = await view_of(database, asked)
    assert (view.status, view.escalated) == (RequestStatus.WAITING, True)
    assert view.approvers == (REVIEWERS, "U0BOSS")
    (left,) = await column(
        database, "SELECT extract(epoch FROM expires_at - clock_timestamp())::float FROM approval_request"
    )
    assert 9.9 * 3600 < left <= 10 * 3600
    (line,) = await lines(database, "escalated")
    assert line["people"] == ["U0BOSS"]
    assert (await alone.vote(database, ballot(asked, boss))).status is RequestStatus.APPROVED


async def test_a_second_deadline_ends_it(database: Database) -> None:
    """After the escalation reminders start again, and when nobody answers then either, the request expires."""
    asked = await ask(database, rule(**ESCALATED))
    await pass_hours(database, 9.5)
    assert await requests.remind_due(database) == 1
    await pass_hours(database, 1)
    await requests.expire_due(database)
    assert (await view_of(database, asked)).status is RequestStatus.WAITING
    await pass_hours(database, 5.1)
    assert await requests.remind_due(database) == 1
    assert (await lines(database, "reminder"))[-1]["people"] == [REVIEWERS, "U0BOSS"]
    await pass_hours(database, 5)
    assert await requests.expire_due(database) == 1
    assert (await view_of(database, asked)).status is RequestStatus.EXPIRED


async def test_without_escalation_the_deadline_ends_it(database: Database) -> None:
    """`escalate_to` alone changes nothing: on_timeout is "expire" by default."""
    asked = await ask(database, rule(escalate_to=("U0BOSS",), **REMINDED))
    await pass_hours(database, 11)
    await requests.expire_due(database)
    assert (await view_of(database, asked)).status is RequestStatus.EXPIRED


# --- places of one's own


async def test_a_place_of_ones_own_is_ones_own(database: Database) -> None:
    """A button in App Home counts for its owner alone; the place stays the same when asked for again."""
    asked = await ask(database, rule(approvals_required=2))
    nonce = await requests.create_place(database, asked.request_id, "home", GRACE)
    assert nonce == await requests.create_place(database, asked.request_id, "home", GRACE)
    assert nonce not in (asked.nonce, await requests.create_place(database, asked.request_id, "modal", GRACE))
    home = Place(nonce, "home")
    stolen = ballot(asked, reviewer(LINUS), place=home)
    assert await refused(alone.vote(database, stolen)) is Refusal.WRONG_PLACE
    as_modal = ballot(asked, reviewer(GRACE), place=Place(nonce, "modal"))
    assert await refused(alone.vote(database, as_modal)) is Refusal.WRONG_PLACE
    assert (await alone.vote(database, ballot(asked, reviewer(GRACE), place=home))).approvals == 1
    async with database.connection() as connection:
        found = await views.request_at(connection, asked.request_id, nonce)
    assert found is not None
    assert (found[1].surface, found[1].person) == ("home", GRACE)


async def test_places_are_made_at_once_and_only_for_what_exists(database: Database) -> None:
    """Many requests get their places in one go; an unknown id gets none."""
    first, second = await ask(database), await ask(database)
    found = await requests.create_places(
        database, [first.request_id, first.run_id, second.request_id], "home", GRACE
    )
    assert found.keys() == {first.request_id, second.request_id}
    with pytest.raises(NotFound):
        await requests.create_place(database, first.run_id, "home", GRACE)


async def test_a_place_that_stands_is_found_without_a_write(database: Database) -> None:
    """App Home is drawn again and again: only a request without a place yet costs a transaction."""
    first, second = await ask(database), await ask(database)
    kept = await requests.create_place(database, first.request_id, "home", GRACE)
    with counting() as counted:
        assert await requests.create_places(database, [], "home", GRACE) == {}
        assert not counted.statements
        await requests.create_places(database, [first.request_id], "home", GRACE)
        assert counted.transactions == 0
        found = await requests.create_places(database, [first.request_id, second.request_id], "home", GRACE)
        assert counted.transactions == 1
    assert found[first.request_id] == kept


# --- a rule as it is stored


async def test_a_request_keeps_the_terms_that_it_was_opened_under(database: Database) -> None:
    """Every term of a rule survives the way into the database and back."""
    terms = rule(
        reason_required=("approve", "reject"),
        reject_reasons=("Wrong amount",),
        redact=("card_number",),
        link_template="https://shop.example/{args.order_id}",
        **EDITABLE,
        **ESCALATED,
    )
    asked = await ask(database, terms)
    (stored,) = await column(database, "SELECT content FROM rule")
    assert Rule.from_snapshot(stored) == terms
    view = await view_of(database, asked)
    assert (view.rule, view.escalated) == (terms, False)

"""Edit, and approve with a note, through their forms."""

from __future__ import annotations

from typing import Any

import pytest

from agent.domain.verdicts import VERDICTS
from agent.store import views
from agent.usecases import requests
from signoff.values import Action
from signoff_demo.actors import choose
from slackbot.cards import (
    ACTION_APPROVE,
    ACTION_APPROVE_COMMENT,
    ACTION_DETAILS,
    ACTION_EDIT,
    ACTION_REJECT,
)
from slackbot.reviewing.edits import NOTHING_CHANGED
from slackbot.reviewing.votes import OUTCOME_UNKNOWN
from slackbot.slack.listeners import forms
from tests.integration import older_cards
from tests.integration.asking import GRACE, Asked, exclude, rule
from tests.integration.listeners.conftest import LOOKED_UP, House

REASON = "signoff:reason/signoff:reason_input"
AMOUNT = "signoff:edit:1/signoff:field"
ORDER = "signoff:edit:0/signoff:field"
TERMS: dict[str, Any] = {"allow_edit": True}
ACTION = Action("process_refund", "1", {"order_id": 7, "amount": 50, "note": "as agreed"})


async def editing_form(
    house: House, user: str = "U0GRACE", **terms: Any
) -> tuple[Asked, dict[str, Any], dict[str, Any]]:
    """A waiting request, its card, and the edit form on this person's screen, opened from an older card."""
    asked, card = await house.asked(rule(**(TERMS | terms)), action=ACTION)
    LOOKED_UP.clear()
    assert (await older_cards.press(house.slack, user, card, ACTION_EDIT)).acked
    return asked, card, house.slack.views(user)[-1]


async def revision(house: House, asked: Asked) -> tuple[int, dict[str, Any], Any]:
    async with house.db.connection() as connection:
        view = await views.request_view(connection, asked.request_id)
    assert view is not None
    return view.revision, dict(view.action.arguments), view.facts


async def test_an_edit_is_a_new_revision(house: House) -> None:
    """Saving the form records the changed arguments with their editor and with facts looked up again."""
    asked, _, form = await editing_form(house)
    answer = await house.slack.person("U0GRACE").submit(form, {AMOUNT: "40"})
    assert answer.error is None
    assert house.slack.views("U0GRACE") == []
    assert await revision(house, asked) == (
        2,
        {"order_id": 7, "amount": 40, "note": "as agreed"},
        {"price": 1500, "amount": 40},
    )
    assert LOOKED_UP == [{"order_id": 7, "amount": 40, "note": "as agreed"}]
    assert house.rows("SELECT detail ->> 'path' FROM audit_event WHERE event = 'request.edited'") == [
        (forms.EDIT_PATH,)
    ]


async def test_the_old_card_does_not_approve_what_was_edited(house: House) -> None:
    """A click on the card as it was drawn before the edit is refused: nobody approves what they have not seen.

    The card is drawn again.
    """
    asked, card, form = await editing_form(house)
    await house.slack.person("U0GRACE").submit(form, {AMOUNT: "40"})
    house.owner.execute("UPDATE delivery SET state = 'sent'")
    await house.slack.person("U0LINUS").click(card, ACTION_APPROVE)
    await house.ephemeral("U0LINUS", "has changed")
    assert await house.status(asked.request_id) == "waiting"
    due = "SELECT kind::text, request_id FROM delivery WHERE state = 'pending'"
    await house.slack.wait_for(lambda: house.rows(due) == [("card", asked.request_id)])


async def test_an_edit_in_the_details_shows_there(http_house: House) -> None:
    """Edit from the modal lies on top of it; saved, the modal shows the new revision, where it can be approved."""
    asked, card = await http_house.asked(rule(**TERMS, editor_may_approve=True), action=ACTION)
    grace = http_house.slack.person("U0GRACE")
    await grace.click(card, ACTION_DETAILS)
    await grace.click(await http_house.modal("U0GRACE", ACTION_EDIT), ACTION_EDIT)
    await grace.submit(http_house.slack.views("U0GRACE")[-1], {AMOUNT: "41"})
    shown = await http_house.modal("U0GRACE", "revision 2")
    assert len(http_house.slack.views("U0GRACE")) == 1
    await grace.click(shown, ACTION_APPROVE)
    assert await http_house.status(asked.request_id) == "approved"


async def test_what_the_tool_does_not_take_is_said_at_its_input(http_house: House) -> None:
    """A value that the tool's own look-up refuses leaves the form open with an error, and nothing changed."""
    asked, _, form = await editing_form(http_house)
    grace = http_house.slack.person("U0GRACE")
    answer = await grace.submit(form, {ORDER: "404"})
    assert "no such order" in str(answer.errors)
    answer = await grace.submit(form, {ORDER: "9007199254740993"})
    assert list(answer.errors) == ["signoff:edit:0"]
    assert (await revision(http_house, asked))[0] == 1


async def test_an_edit_into_a_stricter_checkpoint_is_refused(http_house: House) -> None:
    """More than the request's own checkpoint covers: nothing changed, and the form stays open with what was typed.

    The reason stands at the input that was changed; with less in it, the same form can be sent.
    """
    asked, _, form = await editing_form(http_house)
    grace = http_house.slack.person("U0GRACE")
    answer = await grace.submit(form, {AMOUNT: "5000"})
    assert list(answer.errors) == [AMOUNT.split("/", maxsplit=1)[0]]
    assert "stricter rules" in str(answer.errors)
    assert (await revision(http_house, asked))[0] == 1
    assert [each["id"] for each in http_house.slack.views("U0GRACE")] == [form["id"]]
    assert (await grace.submit(form, {AMOUNT: "40"})).errors == {}
    assert (await revision(http_house, asked))[0] == 2


async def test_an_edit_that_could_not_be_judged_stays_in_the_form(http_house: House) -> None:
    """Slack does not say who edits: nothing changed, and the same form can be sent again with what is in it."""
    asked, _, form = await editing_form(http_house)
    grace = http_house.slack.person("U0GRACE")
    http_house.ctx.directory.forget("U0GRACE")
    http_house.slack.faults.error("users.info", "internal_error", times=None)
    answer = await grace.submit(form, {AMOUNT: "40"})
    assert "try again" in str(answer.errors)
    http_house.slack.faults.clear()
    assert (await revision(http_house, asked))[0] == 1
    await grace.submit(form, {AMOUNT: "40"})
    assert (await revision(http_house, asked))[0] == 2


async def test_a_reason_that_came_too_late_is_not_lost(http_house: House) -> None:
    """Somebody else was faster: the notice that takes the form's place shows what had been written, to be copied."""
    asked, card = await http_house.asked()
    grace, linus = http_house.slack.person("U0GRACE"), http_house.slack.person("U0LINUS")
    await grace.click(card, ACTION_REJECT)
    await linus.click(card, ACTION_APPROVE)
    assert await http_house.status(asked.request_id) == "approved"
    await grace.submit(http_house.slack.views("U0GRACE")[-1], {REASON: "the customer has called me"})
    notice = await http_house.modal("U0GRACE", "already approved")
    assert "the customer has called me" in str(notice)


async def test_saving_what_is_the_same_changes_nothing(http_house: House) -> None:
    """Without a difference there is no revision, and the open form says so."""
    asked, _, form = await editing_form(http_house)
    answer = await http_house.slack.person("U0GRACE").submit(form, {})
    assert list(answer.errors.values()) == [NOTHING_CHANGED]
    assert (await revision(http_house, asked))[0] == 1


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("U0ADA", "not among the reviewers"),
        ("U0MALLORY", "Guests"),
        ("U0EVE", "another workspace"),
    ],
)
async def test_who_may_not_decide_may_not_edit(http_house: House, user: str, words: str) -> None:
    """Their submission is refused in the form and recorded, and the tool's look-up is not run for them."""
    asked, _, form = await editing_form(http_house, user)
    await http_house.slack.person(user).submit(form, {AMOUNT: "40"})
    await http_house.modal(user, words)
    assert LOOKED_UP == []
    assert (await revision(http_house, asked))[0] == 1
    assert http_house.rows("SELECT count(*) FROM audit_event WHERE event = 'edit.refused'") == [(1,)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            """excluded = excluded || '[{"team": "T0SIGNOFF", "user": "U0GRACE", "why": "requester"}]'""",
            "yourself",
        ),
        (
            """excluded = excluded || '[{"team": "T0SIGNOFF", "user": "U0GRACE", "why": "key_owner"}]'""",
            "yourself",
        ),
        (
            """excluded = excluded || '[{"team": "T0SIGNOFF", "user": "U0GRACE", "why": "instructor"}]'""",
            "You told",
        ),
        ("expires_at = clock_timestamp(), created_at = created_at - interval '1 h'", "ran out"),
    ],
)
async def test_facts_are_not_looked_up_for_a_refused_edit(http_house: House, change: str, words: str) -> None:
    """A refusal by the use case is recorded before the tool's look-up runs on the person's input."""
    _, _, form = await editing_form(http_house)
    http_house.owner.execute(f"UPDATE approval_request SET {change}")
    await http_house.slack.person("U0GRACE").submit(form, {AMOUNT: "40"})
    await http_house.modal("U0GRACE", words)
    assert LOOKED_UP == []
    assert http_house.rows("SELECT count(*) FROM audit_event WHERE event = 'edit.refused'") == [(1,)]


async def test_facts_are_not_looked_up_for_an_earlier_revision(http_house: House) -> None:
    """The form of a revision that somebody else has edited since runs no look-up."""
    _, card, form = await editing_form(http_house)
    linus = http_house.slack.person("U0LINUS")
    await choose(http_house.slack, "U0LINUS", card, ACTION_EDIT)
    await linus.submit(http_house.slack.views("U0LINUS")[-1], {AMOUNT: "40"})
    LOOKED_UP.clear()
    await http_house.slack.person("U0GRACE").submit(form, {AMOUNT: "41"})
    await http_house.modal("U0GRACE", "has changed")
    assert LOOKED_UP == []


async def test_facts_are_not_looked_up_for_what_has_ended(http_house: House) -> None:
    """The form of a request that was withdrawn since runs no look-up."""
    asked, _, form = await editing_form(http_house)
    await requests.withdraw(http_house.db, asked.request_id, None, None)
    await http_house.slack.person("U0GRACE").submit(form, {AMOUNT: "41"})
    await http_house.modal("U0GRACE", "withdrawn")
    assert LOOKED_UP == []


async def test_advisers_and_editors_may_edit(http_house: House) -> None:
    """Who may not approve may still change the action; somebody else approves it."""
    asked, _, form = await editing_form(http_house)
    await exclude(http_house.db, asked.request_id, GRACE, "adviser")
    grace = http_house.slack.person("U0GRACE")
    await grace.submit(form, {AMOUNT: "40"})
    assert (await revision(http_house, asked))[0] == 2
    assert len(LOOKED_UP) == 1


@pytest.mark.budgets
async def test_an_edit_that_is_not_known_stays_in_the_form(http_house: House) -> None:
    """A stuck database: the form stays open and says that sending it again is safe, and it is."""
    asked, _, form = await editing_form(http_house)
    grace = http_house.slack.person("U0GRACE")
    with http_house.stuck(asked.request_id):
        answer = await grace.submit(form, {AMOUNT: "40"})
    assert OUTCOME_UNKNOWN in answer.errors.values()
    await grace.submit(form, {AMOUNT: "40"})
    assert (await revision(http_house, asked))[0] == 2


async def test_no_edit_where_the_checkpoint_allows_none(http_house: House) -> None:
    """A forged press of Edit on a request without `allow_edit` is refused with the setting's name."""
    _, card = await http_house.asked(rule(), action=ACTION)
    payload = http_house.slack.person("U0GRACE").click_payload(card, ACTION_APPROVE)
    payload["actions"][0]["action_id"] = ACTION_EDIT
    assert (await http_house.slack.deliveries.interactive(payload)).acked
    await http_house.ephemeral("U0GRACE", "allow_edit = false")


async def test_an_approval_may_have_a_comment(house: House) -> None:
    """Approve with note: submitting the form is the approval, with the note as its reason."""
    asked, card = await house.asked()
    grace = house.slack.person("U0GRACE")
    await choose(house.slack, "U0GRACE", card, ACTION_APPROVE_COMMENT)
    assert await house.status(asked.request_id) == "waiting"
    await grace.submit(house.slack.views("U0GRACE")[-1], {REASON: "as agreed"})
    assert house.rows("SELECT outcome::text, reason FROM decision") == [("approved", "as agreed")]


@pytest.mark.parametrize("older", [False, True])
async def test_an_approval_that_needs_a_comment_asks_for_it(house: House, older: bool) -> None:
    """`reason_required` for approvals: Approve opens the form, which does not go through without a note.

    On an older card, the vote itself finds out; nothing is refused by that.
    """
    asked, card = await house.asked(rule(reason_required=("approve",)))
    grace = house.slack.person("U0GRACE")
    if older:
        assert (await older_cards.press(house.slack, "U0GRACE", card, ACTION_APPROVE)).acked
    else:
        with house.stuck(asked.request_id):  # the form waits for nobody
            assert (await grace.click(card, ACTION_APPROVE_COMMENT)).acked
    assert house.rows("SELECT count(*) FROM audit_event WHERE event = 'vote.refused'") == [(0,)]
    form = house.slack.views("U0GRACE")[-1]
    assert list((await grace.submit(form, {})).errors) == ["signoff:reason"]
    assert await house.status(asked.request_id) == "waiting"
    await grace.submit(form, {REASON: "checked"})
    assert await house.status(asked.request_id) == "approved"


async def test_a_missing_reason_is_said_in_the_form(house: House) -> None:
    """`reason_required` with reasons to choose from: neither chosen nor typed leaves the form open, saying so."""
    asked, card = await house.asked(rule(reason_required=("reject",), reject_reasons=("duplicate",)))
    grace = house.slack.person("U0GRACE")
    await grace.click(card, ACTION_REJECT)
    form = house.slack.views("U0GRACE")[-1]
    answer = await grace.submit(form, {})
    assert answer.errors == {"signoff:reason": VERDICTS["reject"].reason_missing}
    assert await house.status(asked.request_id) == "waiting"
    await grace.submit(form, {"signoff:choice/signoff:choice_input": "duplicate"})
    assert house.rows("SELECT reason FROM decision") == [("duplicate",)]

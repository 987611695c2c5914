"""*More…*: what few reviewers need, in a form of its own; older cards have its buttons themselves."""

from __future__ import annotations

import pytest

from signoff_demo.actors import choose
from slackbot.cards import (
    ACTION_APPROVE,
    ACTION_APPROVE_COMMENT,
    ACTION_EDIT,
    ACTION_MORE,
)
from tests.integration import older_cards
from tests.integration.asking import rule
from tests.integration.listeners.conftest import House

REASON = "signoff:reason/signoff:reason_input"


async def test_a_note_is_two_presses_away_and_leaves_nothing_open(house: House) -> None:
    """More…, the note's form on top of it, sent: the approval counts with its note, and both forms are closed."""
    asked, card = await house.asked()
    await choose(house.slack, "U0GRACE", card, ACTION_APPROVE_COMMENT)
    assert len(house.slack.views("U0GRACE")) == 2
    assert await house.status(asked.request_id) == "waiting"
    sent = await house.slack.person("U0GRACE").submit(house.slack.views("U0GRACE")[-1], {REASON: "as agreed"})
    assert sent.error is None
    assert house.rows("SELECT outcome::text, reason FROM decision") == [("approved", "as agreed")]
    assert house.slack.views("U0GRACE") == []


async def test_more_offers_what_policy_allows(http_house: House) -> None:
    """Each with what it does; what the checkpoint does not allow is not there."""
    grace = http_house.slack.person("U0GRACE")
    for allow_edit in (False, True):
        _, card = await http_house.asked(rule(allow_edit=allow_edit))
        await grace.click(card, ACTION_MORE)
        form = await http_house.modal("U0GRACE", "Approve, and write a note")
        assert (ACTION_EDIT in str(form)) == allow_edit
        await grace.close(form, clear=True)


async def test_more_of_what_was_decided_meanwhile_says_so(http_house: House) -> None:
    """A card that was not drawn again yet opens no form that could only be refused: it says who decided."""
    asked, card = await http_house.asked()
    await http_house.slack.person("U0LINUS").click(card, ACTION_APPROVE)
    assert await http_house.status(asked.request_id) == "approved"
    await older_cards.press(http_house.slack, "U0GRACE", card, ACTION_MORE)
    await http_house.ephemeral("U0GRACE", "already approved by")
    assert http_house.slack.views("U0GRACE") == []


async def test_a_form_of_more_counts_on_its_card_and_not_as_having_read_details(http_house: House) -> None:
    """More… shows less than Details, so reports go on telling who voted without them; the vote is the card's."""
    asked, card = await http_house.asked()
    await choose(http_house.slack, "U0GRACE", card, ACTION_APPROVE_COMMENT)
    await http_house.slack.person("U0GRACE").submit(http_house.slack.views("U0GRACE")[-1], {REASON: "fine"})
    assert await http_house.status(asked.request_id) == "approved"
    assert http_house.rows("SELECT surface::text FROM card_place") == [("channel",)]


@pytest.mark.parametrize(
    ("action", "title", "form"),
    [
        (ACTION_APPROVE_COMMENT, "Approve", "signoff:approve_modal"),
        (ACTION_EDIT, "Edit", "signoff:edit_modal"),
    ],
)
async def test_cards_posted_before_keep_their_buttons(
    http_house: House, action: str, title: str, form: str
) -> None:
    """An upgrade changes no message in Slack: the buttons that only older cards have open their forms as before."""
    _, card = await http_house.asked(rule(allow_edit=True))
    assert (await older_cards.press(http_house.slack, "U0GRACE", card, action)).acked
    [opened] = http_house.slack.views("U0GRACE")
    assert (opened["title"]["text"], opened["callback_id"]) == (title, form)

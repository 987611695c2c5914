"""Details of a request in a modal: at once, in pages, with buttons of their own; and as a file."""

from __future__ import annotations

from typing import Any

import pytest

from agent.domain.errors import Refusal, sentence
from signoff.values import Action
from slackbot.cards import (
    ACTION_APPROVE,
    ACTION_DETAILS,
    ACTION_FILE,
    ACTION_PAGE,
    ACTION_PAGE_BACK,
    ACTION_REJECT,
    ButtonValue,
)
from slackbot.slack.listeners import details, modals
from tests.integration.asking import ask, rule
from tests.integration.listeners.conftest import House

REASON = "signoff:reason/signoff:reason_input"
CHOICE = "signoff:choice/signoff:choice_input"
TOKEN = "ghp_" + "a1B2" * 9


def long() -> Action:
    """Arguments of many pages, with a secret on the first."""
    note = "\n".join(f"line {number} of a long note" for number in range(3000))
    return Action("process_refund", "1", {"order_id": 7, "amount": 5, "note": f"token {TOKEN}\n{note}"})


async def opened(house: House, user: str = "U0GRACE", **asked: Any) -> dict[str, Any]:
    _, card = await house.asked(**asked)
    assert (await house.slack.person(user).click(card, ACTION_DETAILS)).acked
    return await house.modal(user, "Details")


async def test_details_open_with_everything(house: House) -> None:
    """Details: the modal shows facts, arguments and what the agent was asked, with the card's buttons."""
    _, card = await house.asked()
    assert (await house.slack.person("U0GRACE").click(card, ACTION_DETAILS)).acked
    shown = str(await house.modal("U0GRACE", "order_id"))
    assert "1500" in shown
    assert "refund order 7" in shown
    assert ACTION_APPROVE in shown


async def test_the_empty_modal_comes_before_the_database(http_house: House) -> None:
    """The trigger is used at once: without a database the modal is there, and says that looking up failed."""
    _, card = await http_house.asked()
    with http_house.without_database():
        assert (await http_house.slack.person("U0GRACE").click(card, ACTION_DETAILS)).acked
        await http_house.modal("U0GRACE", modals.FAILED)


async def test_details_come_after_silences_that_slack_asks_for(http_house: House) -> None:
    """After two 429s nothing is drawn before Slack's time is over, and then the details are: no modal stays empty."""
    _, card = await http_house.asked()
    fault = http_house.slack.faults.ratelimited("views.update", retry_after=1, times=2)
    assert (await http_house.slack.person("U0GRACE").click(card, ACTION_DETAILS)).acked
    await http_house.modal("U0GRACE", "order_id")
    assert fault.hits == 2
    assert len(http_house.slack.calls_of("views.update")) == 3


async def test_an_approval_in_the_details_counts_and_shows(house: House) -> None:
    """Approve in the modal is a vote on that path, and the modal shows the new state."""
    asked, card = await house.asked()
    grace = house.slack.person("U0GRACE")
    await grace.click(card, ACTION_DETAILS)
    assert (await grace.click(await house.modal("U0GRACE", ACTION_APPROVE), ACTION_APPROVE)).acked
    assert await house.status(asked.request_id) == "approved"
    assert house.rows("SELECT user_id, path FROM vote") == [("U0GRACE", "slack_details")]
    shown = await house.modal("U0GRACE", "Approved")
    assert ACTION_APPROVE not in str(shown)


async def test_a_rejection_from_the_details_lies_on_top_of_them(house: House) -> None:
    """Reject in the modal pushes the form; when it has been sent, the details below show that it is rejected."""
    asked, card = await house.asked(rule(reject_reasons=("duplicate", "wrong amount")))
    grace = house.slack.person("U0GRACE")
    await grace.click(card, ACTION_DETAILS)
    await grace.click(await house.modal("U0GRACE", ACTION_REJECT), ACTION_REJECT)
    assert len(house.slack.views("U0GRACE")) == 2
    await grace.submit(house.slack.views("U0GRACE")[-1], {CHOICE: "wrong amount", REASON: "it was 9"})
    assert await house.status(asked.request_id) == "rejected"
    await house.modal("U0GRACE", "Rejected")
    assert len(house.slack.views("U0GRACE")) == 1
    assert house.rows("SELECT reason FROM decision") == [("wrong amount: it was 9",)]


async def test_pages_turn_both_ways(house: House) -> None:
    """Next and Back lead through the pages; no page shows a secret."""
    shown = await opened(house, action=long())
    shown = await house.modal("U0GRACE", "page 1 of")
    grace = house.slack.person("U0GRACE")
    assert TOKEN not in str(shown)
    assert "redacted" in str(shown)
    await grace.click(shown, ACTION_PAGE)
    shown = await house.modal("U0GRACE", "page 2 of")
    await grace.click(shown, ACTION_PAGE_BACK)
    await house.modal("U0GRACE", "page 1 of")


async def test_the_file_goes_to_who_asked_for_it_alone(house: House) -> None:
    """The file holds everything but secrets, and arrives in the person's own conversation with the app."""
    await opened(house, action=long())
    shown = await house.modal("U0GRACE", "page 1 of")
    assert (await house.slack.person("U0GRACE").click(shown, ACTION_FILE)).acked
    direct = house.slack.workspace.direct_channel("U0GRACE").id
    (message,) = await house.slack.wait_for(lambda: house.slack.messages(direct))
    file = house.slack.workspace.files[message["files"][0]["id"]]
    text = file["content"].decode()
    assert "line 2999 of a long note" in text
    assert TOKEN not in text
    assert all("files" not in each for each in house.slack.messages("C0REVIEW"))


async def test_a_file_that_cannot_be_sent_is_said(http_house: House) -> None:
    """A missing scope or a failing upload is reported where the file was requested."""
    await opened(http_house, action=long())
    shown = await http_house.modal("U0GRACE", "page 1 of")
    http_house.slack.faults.error("files.getUploadURLExternal", "missing_scope")
    await http_house.slack.person("U0GRACE").click(shown, ACTION_FILE)
    await http_house.modal("U0GRACE", details.FILE_FAILED)


@pytest.mark.parametrize(("user", "words"), [("U0MALLORY", "Guests"), ("U0EVE", "another workspace")])
async def test_who_is_not_one_of_us_sees_no_details(http_house: House, user: str, words: str) -> None:
    """Guests and outsiders may see the card in the channel; the details show them only why they may not."""
    await opened(http_house, user)
    shown = str(await http_house.modal(user, words))
    assert "order_id" not in shown


async def test_an_id_alone_opens_nothing(http_house: House) -> None:
    """A button whose request does not exist, or is of others, says the same sentence."""
    asked, card = await http_house.asked()
    http_house.slack.workspace.add_member("U0OUT", "out")
    for request_id in (asked.request_id, asked.run_id):
        payload = http_house.slack.person("U0OUT").click_payload(card, ACTION_DETAILS)
        payload["actions"][0]["value"] = str(ButtonValue(asked.nonce, request_id, 1))
        assert (await http_house.slack.deliveries.interactive(payload)).acked
        await http_house.modal("U0OUT", sentence(Refusal.UNKNOWN_REQUEST))


async def test_a_modals_button_is_its_owners(http_house: House) -> None:
    """The nonce of one person's modal is nothing in another person's hands, nor in a channel."""
    asked, card = await http_house.asked()
    other = await ask(http_house.db)
    grace = http_house.slack.person("U0GRACE")
    await grace.click(card, ACTION_DETAILS)
    mine = await http_house.modal("U0GRACE", ACTION_APPROVE)
    payload = grace.click_payload(mine, ACTION_APPROVE)
    stolen = payload | {"user": payload["user"] | {"id": "U0LINUS"}}
    assert (await http_house.slack.deliveries.interactive(stolen)).acked
    in_channel = http_house.slack.person("U0LINUS").click_payload(card, ACTION_APPROVE)
    in_channel["actions"][0]["value"] = payload["actions"][0]["value"]
    assert (await http_house.slack.deliveries.interactive(in_channel)).acked
    foreign = grace.click_payload(mine, ACTION_APPROVE)
    foreign["actions"][0]["value"] = str(ButtonValue(other.nonce, other.request_id, 1))
    assert (await http_house.slack.deliveries.interactive(foreign)).acked
    assert await http_house.status(asked.request_id) == "waiting"
    assert await http_house.status(other.request_id) == "waiting"


async def test_a_refusal_in_a_modal_is_told_there(http_house: House) -> None:
    """Without a message there is no response_url: what speaks against a vote is said in a modal on top."""
    _, card = await http_house.asked()
    ada = http_house.slack.person("U0ADA")
    await ada.click(card, ACTION_DETAILS)
    await ada.click(await http_house.modal("U0ADA", ACTION_APPROVE), ACTION_APPROVE)
    await http_house.modal("U0ADA", "not among the reviewers")
    assert len(http_house.slack.views("U0ADA")) == 2


async def test_a_late_vote_in_a_form_reads_who_decided(http_house: House) -> None:
    """A form sent after somebody else has decided says by whom, as a person and not as an id."""
    _, card = await http_house.asked()
    linus = http_house.slack.person("U0LINUS")
    await linus.click(card, ACTION_REJECT)
    await http_house.slack.person("U0GRACE").click(card, ACTION_APPROVE)
    await linus.submit(http_house.slack.views("U0LINUS")[-1], {REASON: "no"})
    shown = await http_house.modal("U0LINUS", "already approved")
    assert {"type": "user", "user_id": "U0GRACE"} in shown["blocks"][0]["elements"][0]["elements"]

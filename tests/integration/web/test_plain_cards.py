"""Cards for people who are not developers: `layout`, `labels` and `hide`, on card, list, page and in Details."""

from __future__ import annotations

import pytest

from slackbot.cards import ACTION_DETAILS
from tests.integration.asking import column
from tests.integration.web.conftest import GRACE, Street
from tests.integration.web.visiting import PUBLIC, Porch
from tests.rendered import above_the_buttons, rendered

TERMS = """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]

[[checkpoint]]
checkpoint_id = "payouts"
action_pattern = "pay_out"
layout = "plain"
labels = { amount = "Sum" }
hide = ["trace_id"]
"""
ARGUMENTS = {"amount": 40, "paid_to": "Ines", "trace_id": "4711-abc"}


@pytest.fixture
def policy() -> str:
    return TERMS


@pytest.fixture
def settings() -> dict[str, str]:
    return {"SIGNOFF_PUBLIC_URL": PUBLIC}


async def test_plain_words_everywhere_and_the_rest_in_details(site: Street) -> None:
    """Labels and words for names; what is hidden is counted, is in Details and on the page, and no row approves it."""
    slack = site.house.slack
    assert (await (await site.program()).ask(action="pay_out", arguments=ARGUMENTS)).status_code == 201
    card = await site.house.card()
    lines = above_the_buttons(card["blocks"])
    assert "Pay out · Sum: 40, Paid to: Ines, … (+1 argument)" in " ".join(lines)
    assert "1 more value is in Details." in lines
    for technical in ("pay_out", "paid_to", "trace_id", "4711"):
        assert technical not in " ".join(lines), technical
    await slack.person("U0GRACE").click(card, ACTION_DETAILS)
    details = await slack.wait_for(
        lambda: next((each for each in slack.views("U0GRACE") if "page 1 of" in str(each)), None)
    )
    assert "• Trace id: 4711-abc" in rendered(details["blocks"])
    reader = await Porch(site.house, site.service).visitor(GRACE.user_id)
    await reader.open("/inbox")
    listed = reader.words.rpartition("Waiting for you")[2]
    assert "Pay out · Sum: 40, Paid to: Ines" in listed
    assert "Approve …" in reader.words
    [asked] = await column(site.db, "SELECT id FROM approval_request")
    await reader.open(f"/inbox/requests/{asked}")
    assert "Trace id 4711-abc" in reader.words


async def test_names_that_read_alike_are_told_apart(site: Street) -> None:
    """On the card and on the page they stand as they are, in quotation marks."""
    arguments = {"amount": 40, "sum": 41, "paid_to": "Ines", "paidTo": [["Ada"]]}
    await (await site.program()).ask(action="pay_out", arguments=arguments)
    said = " ".join(above_the_buttons((await site.house.card())["blocks"]))
    assert 'Sum: 40, "paidTo": [["Ada"]], "paid_to": Ines, "sum": 41' in said
    assert '• "paidTo": 1 item' in said
    [asked] = await column(site.db, "SELECT id FROM approval_request")
    reader = await Porch(site.house, site.service).visitor(GRACE.user_id)
    await reader.open(f"/inbox/requests/{asked}")
    for words in ('"paidTo" 1 item', '"paid_to" Ines', '"sum" 41', "Sum 40"):
        assert words in reader.words, words


@pytest.mark.parametrize("policy", [TERMS + 'risk = "high"\n'])
async def test_nothing_is_hidden_from_high_risk_on(site: Street) -> None:
    """The card shows every argument, under the same words."""
    await (await site.program()).ask(action="pay_out", arguments=ARGUMENTS)
    said = " ".join(above_the_buttons((await site.house.card())["blocks"]))
    assert "Trace id: “4711-abc”" in said
    assert "in Details." not in said

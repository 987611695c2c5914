"""Modals that Slack opens, but takes long to say so: the click is acknowledged, and nobody is told otherwise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from signoff.values import Risk
from signoff_demo.sandbox.delivery_report import DeliveryReport
from signoff_demo.sandbox.person import InteractionResult
from slackbot.cards import (
    ACTION_APPROVE_COMMENT,
    ACTION_DETAILS,
    ACTION_EDIT,
    ACTION_LIST,
    ACTION_MORE,
    ACTION_REJECT,
    FloodDigest,
    flood_digest_card,
)
from slackbot.reviewing.votes import OUTCOME_UNKNOWN
from slackbot.slack.listeners import ListenerContext, modals
from slackbot.slack.listeners.clicks import FORM_NOT_OPENED
from tests.integration import older_cards
from tests.integration.asking import rule
from tests.integration.listeners.conftest import House
from tests.patience import promised

OPEN = "views.open"
SLOW = 4.0
"""Seconds: longer than Slack waits for an acknowledgement, and less than we wait for Slack."""
PRESSED = (ACTION_REJECT, ACTION_APPROVE_COMMENT, ACTION_EDIT, ACTION_DETAILS, ACTION_MORE)
Press = Callable[[House], Awaitable[InteractionResult | DeliveryReport]]


def _on_card(action: str) -> Press:
    async def press(house: House) -> InteractionResult | DeliveryReport:
        _, card = await house.asked(rule(allow_edit=True))
        if action in (ACTION_APPROVE_COMMENT, ACTION_EDIT):
            return await older_cards.press(house.slack, "U0GRACE", card, action)
        return await house.slack.person("U0GRACE").click(card, action)

    return press


async def _on_digest(house: House) -> InteractionResult:
    card = flood_digest_card(FloodDigest("refunds", 3, Risk.LOW))
    posted = await house.client.chat_postMessage(channel="C0REVIEW", text=card.text, blocks=card.blocks)
    return await house.slack.person("U0GRACE").click(("C0REVIEW", posted["ts"]), ACTION_LIST)


async def _by_command(house: House) -> InteractionResult:
    return await house.slack.person("U0GRACE").command("/agent", "", "C0AGENTS")


WAYS: dict[str, Press] = {
    **{action: _on_card(action) for action in PRESSED},
    ACTION_LIST: _on_digest,
    "/agent": _by_command,
}


@pytest.mark.budgets
@pytest.mark.parametrize("way", WAYS)
async def test_a_slow_modal_is_acknowledged_and_nobody_is_told_otherwise(http_house: House, way: str) -> None:
    """Slack opens it at once and answers after 4 s: the click succeeds within 2.6 s, and no message follows."""
    http_house.slack.faults.slow(OPEN, SLOW)
    answer = await WAYS[way](http_house)
    assert (answer.acked, answer.error) == (True, None)
    assert answer.elapsed < promised(2.6)
    assert len(http_house.slack.views("U0GRACE")) == 1
    await http_house.ctx.background.finish(10.0)
    assert http_house.slack.ephemeral("U0GRACE") == []


@pytest.mark.budgets
async def test_a_form_that_opened_slowly_works(house: House) -> None:
    """The reviewer submits it before Slack has answered, and that is the decision."""
    asked, card = await house.asked()
    house.slack.faults.slow(OPEN, SLOW)
    grace = house.slack.person("U0GRACE")
    assert (await grace.click(card, ACTION_REJECT)).acked
    reason = {"signoff:reason/signoff:reason_input": "no"}
    assert (await grace.submit(house.slack.views("U0GRACE")[-1], reason)).error is None
    assert await house.status(asked.request_id) == "rejected"
    await house.ctx.background.finish(10.0)
    assert house.slack.ephemeral("U0GRACE") == []


async def test_a_slow_refusal_is_told_after_the_acknowledgement(
    http_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack does not answer in time and then refuses, or never answers: the person reads what to do."""
    monkeypatch.setattr(modals, "OPENING", 0.0)
    _, card = await http_house.asked()
    grace = http_house.slack.person("U0GRACE")
    http_house.slack.faults.error(OPEN, "expired_trigger_id")
    assert (await grace.click(card, ACTION_REJECT)).acked
    await http_house.ephemeral("U0GRACE", FORM_NOT_OPENED)
    http_house.slack.faults.hang(OPEN, 0.2)
    assert (await grace.click(card, ACTION_REJECT)).acked
    await http_house.ephemeral("U0GRACE", modals.UNCONFIRMED)


async def test_a_refusal_after_the_budget_is_told(http_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The click's time ends while Slack still opens the form, and then Slack refuses: the person reads of both."""
    monkeypatch.setattr(ListenerContext, "budget", 3.0)
    monkeypatch.setattr(modals, "OPENING", 60.0)
    _, card = await http_house.asked()
    http_house.slack.faults.hang(OPEN, 4.0)
    assert not (await http_house.slack.person("U0GRACE").click(card, ACTION_REJECT)).acked
    await http_house.ephemeral("U0GRACE", OUTCOME_UNKNOWN)
    await http_house.ephemeral("U0GRACE", modals.UNCONFIRMED)

"""Buttons that cards have had: a message in Slack stays as it was posted."""

from __future__ import annotations

from typing import Any

from signoff_demo.sandbox import SlackSandbox
from signoff_demo.sandbox.delivery_report import DeliveryReport
from slackbot.cards import ACTION_REJECT


async def press(slack: SlackSandbox, user: str, card: Any, action_id: str) -> DeliveryReport:
    """A button of the time before *More…*, beside Reject."""
    payload = slack.person(user).click_payload(card, ACTION_REJECT)
    payload["actions"][0]["action_id"] = action_id
    return await slack.deliveries.interactive(payload)

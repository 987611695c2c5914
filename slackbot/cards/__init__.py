"""Stored facts become Block Kit here, and text from others becomes inert. No I/O, no clock."""

from slackbot.cards.request import request_card
from slackbot.cards.values import (
    ACTION_APPROVE,
    ACTION_ASK_AGAIN,
    ACTION_DETAILS,
    ACTION_DONE,
    ACTION_REJECT,
    ACTION_RETRY,
    CALLBACK_REJECT,
    EVENT_TYPE,
    ButtonValue,
    Card,
    Names,
    button_value,
    parse_button_value,
)

__all__ = [
    "ACTION_APPROVE",
    "ACTION_ASK_AGAIN",
    "ACTION_DETAILS",
    "ACTION_DONE",
    "ACTION_REJECT",
    "ACTION_RETRY",
    "CALLBACK_REJECT",
    "EVENT_TYPE",
    "ButtonValue",
    "Card",
    "Names",
    "button_value",
    "parse_button_value",
    "request_card",
]

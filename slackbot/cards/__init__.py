"""Stored facts become Block Kit here, and text from others becomes inert. No I/O, no clock."""

from slackbot.cards.lines import run_line, run_root, thread_line
from slackbot.cards.lists import (
    AgentLine,
    agent_list,
    refusal_text,
    request_details,
    request_list,
    run_list,
    run_started,
    usage,
)
from slackbot.cards.modals import notice_modal, reason_of, reject_modal, skeleton_modal
from slackbot.cards.request import request_card
from slackbot.cards.together import together
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
    "AgentLine",
    "ButtonValue",
    "Card",
    "Names",
    "agent_list",
    "button_value",
    "notice_modal",
    "parse_button_value",
    "reason_of",
    "refusal_text",
    "reject_modal",
    "request_card",
    "request_details",
    "request_list",
    "run_line",
    "run_list",
    "run_root",
    "run_started",
    "skeleton_modal",
    "thread_line",
    "together",
    "usage",
]

"""Longer time budgets, for all tests but those that are about them.

The budgets exist because Slack waits three seconds. A machine that stalls for a second must not fail a test.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from agent.database import pools
from agent.runtime.judging import edits
from signoff_demo.sandbox import SlackSandbox
from slackbot.reviewing import votes
from slackbot.slack.listeners import ListenerContext
from slackbot.slack_api.directory import Directory
from slackbot.slack_api.permalinks import Permalinks
from slackbot.web.http import late_refusals
from slackbot.web.inbox import requests

TIMES = 4
CONSTANTS: tuple[tuple[Any, str], ...] = (
    (ListenerContext, "budget"),
    (requests, "BUDGET"),
    (votes, "VOTE_BUDGET"),
    (pools, "DECISION_BUDGET"),
    (pools, "DECISION_POOL_WAIT"),
    (pools, "POOL_WAIT"),
)
DEFAULTS: tuple[tuple[Any, str], ...] = (
    (Directory.__init__, "budget"),
    (Permalinks.of, "within"),
    (edits.judge_edit, "within"),
    (SlackSandbox.__init__, "ack_seconds"),
    (SlackSandbox.__init__, "trigger_seconds"),
)


def promised(seconds: float) -> float:
    """How long something that takes `seconds` on an idle machine may take now."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def lengthen_budgets(patch: pytest.MonkeyPatch) -> None:
    """Multiply every budget by `TIMES`, and refuse unknown keys at once, until the patch is undone."""
    for owner, name in CONSTANTS:
        patch.setattr(owner, name, TIMES * getattr(owner, name))
    patch.setattr(late_refusals, "PAUSE", 0.0)
    for function, name in DEFAULTS:
        patch.setitem(function.__kwdefaults__, name, TIMES * function.__kwdefaults__[name])

"""The messages that `signoff doctor` has Slack check: every kind that the service sends."""

from __future__ import annotations

import inspect
import pkgutil
import sys
from importlib import import_module
from types import CodeType, FrameType
from typing import Any

import pytest

from slackbot import cards
from slackbot.cards import Card
from slackbot.service.sample_cards import sample_cards
from tests.unit.cards.conftest import CREATED, GRACE, assert_limits, walk

ANSWERS = {"request_list", "history_list", "grant_list", "limit_list", "stats", "_text_card"}
"""Not sampled: only the person who typed a command gets these, and nothing is decided on them."""

SAMPLES = dict(sample_cards(GRACE, "C0REVIEW", CREATED))


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_sample_keeps_slacks_limits(kind: str) -> None:
    """As far as the limits are known here."""
    assert_limits(SAMPLES[kind], walk(SAMPLES[kind].blocks))


@pytest.mark.parametrize(
    ("kind", "lines"), [("a request's lines", cards.REQUEST_LINES), ("a run's lines", cards.RUN_LINES)]
)
def test_every_kind_of_line_is_in_a_sample_in_full(kind: str, lines: dict[str, Any]) -> None:
    """None is counted or shortened, so each has its own blocks there."""
    shown = str(SAMPLES[kind].blocks)
    assert "more events" not in shown
    assert shown.count("wrong size") >= len(lines) - 1  # a settlement's is its verdict
    assert all(each["elements"] for each in SAMPLES[kind].blocks)


def test_every_function_that_draws_a_message_is_sampled_or_named() -> None:
    """A new kind of message fails here until it is sampled, or named as an exception with its reason."""
    called: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add(frame.f_code)

    sys.setprofile(note)
    try:
        list(sample_cards(GRACE, "C0REVIEW", CREATED))
    finally:
        sys.setprofile(None)
    drawing = {
        name: function
        for module in pkgutil.iter_modules(cards.__path__, "slackbot.cards.")
        for name, function in inspect.getmembers(import_module(module.name), inspect.isfunction)
        if inspect.signature(function).return_annotation in (Card, "Card")
    }
    assert {name for name, function in drawing.items() if function.__code__ not in called} == ANSWERS

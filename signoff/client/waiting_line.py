"""A program that waits says so, once per request: in its log, or on standard error if it has none."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

from signoff.client.reviews import Review
from signoff.description import shorten
from signoff.visible_text import one_line

log = logging.getLogger("signoff.client")

MAX_DESCRIPTION = 300

_KEPT = 1_000
_said: dict[str, None] = {}
"""The requests of the latest lines, the oldest first."""


def is_said(review: Review) -> bool:
    """Whether this process has said already that it waits for this request."""
    return review.id in _said


def has_card(review: Review) -> bool:
    """Whether the answer tells where the request's card is in Slack."""
    return bool(review.raw.get("slack_url"))


def say_waiting(review: Review) -> None:
    """Names the card, or the request's page."""
    if is_said(review):
        return
    _said[review.id] = None
    if len(_said) > _KEPT:
        _said.pop(next(iter(_said)), None)
    place = review.raw.get("slack_url") or review.raw.get("url")
    what = shorten(one_line(review.description), MAX_DESCRIPTION)
    words = f"waiting for people to decide about {what} (request {review.id})"
    line = f"{words}: {one_line(str(place))}" if place else words
    if log.hasHandlers():
        log.info("paused: %s", line)
    elif sys.stderr is not None:
        with suppress(OSError, ValueError):  # closed: the program waits all the same
            print(f"signoff: {line}", file=sys.stderr, flush=True)  # noqa: T201

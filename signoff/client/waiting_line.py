"""A program that waits says so, once per request: in its log, or on standard error if it has none."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
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


def say_waiting(reviews: Sequence[Review]) -> None:
    """One line for all that are not said, with the card of the first, or its page."""
    unsaid = [each for each in reviews if not is_said(each)]
    if not unsaid:
        return
    for each in unsaid:
        _said[each.id] = None
    for _ in range(len(_said) - _KEPT):
        _said.pop(next(iter(_said)), None)
    first = unsaid[0]
    what = shorten(one_line(first.description), MAX_DESCRIPTION)
    number = f"{len(unsaid)} requests, the first of them " if len(unsaid) > 1 else ""
    words = f"waiting for people to decide about {number}{what} (request {first.id})"
    place = first.raw.get("slack_url") or first.raw.get("url")
    line = f"{words}: {one_line(str(place))}" if place else words
    if log.hasHandlers():
        log.info("paused: %s", line)
    elif sys.stderr is not None:
        with suppress(OSError, ValueError):  # closed: the program waits all the same
            print(f"signoff: {line}", file=sys.stderr, flush=True)  # noqa: T201

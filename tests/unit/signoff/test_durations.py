"""Lengths of time as people write them, in one spelling on every path."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from signoff.durations import seconds_of


@pytest.mark.parametrize(
    ("length", "seconds"),
    [
        ("72h", 259_200),
        ("3d", 259_200),
        ("1h30m", 5_400),
        ("90s", 90),
        ("90", 90),
        ("0.25", 0.25),
        (90, 90),
        (0.25, 0.25),
        (0, 0),
        (timedelta(minutes=2), 120),
    ],
)
def test_a_length_of_time_has_one_meaning(length: Any, seconds: float) -> None:
    """A text with units, a number of seconds and a timedelta mean the same everywhere."""
    assert seconds_of(length) == seconds


@pytest.mark.parametrize(
    "length",
    ["", "3 days", "h", "1h30", "-5s", "1.5h", "nan", "٣h", None, True, float("nan"), float("inf"), [1]],
)
def test_what_is_no_length_of_time_says_what_one_is(length: Any) -> None:
    """Whatever else is written, the message shows how to write it."""
    with pytest.raises(ValueError, match='must be a time such as "72h"'):
        seconds_of(length)


@pytest.mark.parametrize("length", [-1, timedelta(seconds=-1), "36501d", 1e15])
def test_a_length_of_time_is_within_a_century(length: Any) -> None:
    """Added to the present it is still a date, and never in the past."""
    with pytest.raises(ValueError, match=r"must not be negative|must be at most 36500d"):
        seconds_of(length)

"""Lengths of time, as `"72h"` or as seconds."""

from __future__ import annotations

import math
import re
from datetime import timedelta

Duration = str | float | timedelta
FORMS = 'a time such as "72h", "30m" or "1h30m", or a number of seconds'

_N = "[0-9]{1,9}"
PATTERN = rf"^({_N}(\.{_N})?|{_N}d({_N}h)?({_N}m)?({_N}s)?|{_N}h({_N}m)?({_N}s)?|{_N}m({_N}s)?|{_N}s)$"
"""Of the texts that `seconds_of` reads, in JSON Schema's regular expressions."""

_PARTS = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?\Z", re.ASCII)
_IN_WORDS = re.compile(
    r"\s*(\d{1,9})\s*(d|days?|h|hrs?|hours?|m|mins?|minutes?|s|secs?|seconds?)\s*\Z", re.ASCII | re.IGNORECASE
)
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?\Z", re.ASCII)
_LONGEST = 100 * 365 * 86_400
"""Keeps now + duration a valid date."""


def seconds_of(length: Duration) -> float:
    """Raises ValueError."""
    if isinstance(length, timedelta):
        seconds = length.total_seconds()
    elif isinstance(length, str):
        seconds = _read(length)
    else:
        seconds = _number(length)
    if seconds < 0:
        raise ValueError("must not be negative")
    if seconds > _LONGEST:
        raise ValueError("must be at most 36500d")
    return seconds


def _read(text: str) -> float:
    if _NUMBER.match(text):
        return float(text)
    parts = _PARTS.match(text) if text else None
    if parts is None:
        raise ValueError(f"must be {FORMS}{_meant(text)}")
    days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _meant(text: str) -> str:
    """For words and capitals, such as "3 days"."""
    found = _IN_WORDS.match(text)
    return f' (did you mean "{found[1]}{found[2][0].lower()}"?)' if found else ""


def _number(given: object) -> float:
    """Bool is an int to Python."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise ValueError(f"must be {FORMS}")
    return float(given)

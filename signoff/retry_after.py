"""The Retry-After header (RFC 9110, section 10.2.3)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST = 999_999_999.0
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")  # model providers send fractions, which the RFC does not allow


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds from ``now`` (aware), never negative; ``None`` if missing or invalid."""
    if value is None:
        return None
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), LONGEST)
    try:
        at = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())

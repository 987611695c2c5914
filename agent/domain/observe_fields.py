"""Parse the keys of observed checkpoints. A ValueError's text follows the key's name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time
from typing import Any

from agent.domain.checkpoint_fields import one_of
from agent.domain.observation import LONGEST

OBSERVE = "observe"


def mode(value: Any) -> str:
    return one_of(value, ["enforce", OBSERVE])


def observe_until(value: Any) -> datetime:
    """A date (its beginning) or a time; UTC without a zone."""
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(at, date) and not isinstance(at, datetime):
            at = datetime.combine(at, time())
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise ValueError("must be a date such as 2026-12-24 or a time such as 2026-12-24T18:00:00Z") from None


KEYS = {"mode": mode, "observe_until": observe_until}


def problems(
    read: Mapping[str, Any], written: Mapping[str, Any], now: datetime | None
) -> Iterator[tuple[str, str]]:
    """``read``: the valid keys. ``now``: when the policy is applied; ``None``: applied earlier."""
    is_observed, until = read.get("mode") == OBSERVE, read.get("observe_until")
    if is_observed and "observe_until" not in written:
        yield "mode", '"mode" is "observe" and so needs "observe_until", at most 30 days ahead'
    if until is None or ("mode" in written and "mode" not in read):
        return
    if not is_observed:
        yield "observe_until", '"observe_until" is used only with mode = "observe"'
    elif now is not None and until - now > LONGEST:
        yield "observe_until", '"observe_until" must be at most 30 days ahead'

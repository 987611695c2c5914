"""What checkpoints in observe mode would have asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

LONGEST = timedelta(days=30)
"""Distance of `observe_until` when applied, so that no observation is forgotten."""

MAX_LINES = 20


@dataclass(frozen=True, slots=True)
class Observation:
    checkpoint_id: str
    version: str
    """Identifies its text; a changed checkpoint starts a new count."""
    until: datetime
    applies: bool
    verdict: Literal["run", "ask", "deny"]
    """The whole policy's decision with this checkpoint in force."""
    because: str


@dataclass(frozen=True, slots=True)
class ObservedCount:
    checkpoint_id: str
    version: str
    judged: int
    asks: int = 0
    asked_anyway: int = 0
    """By another rule."""
    frees: int = 0
    """Asked calls that would have run."""
    first: datetime | None = None
    last: datetime | None = None


def week_before(at: datetime) -> tuple[datetime, datetime]:
    """Monday to Monday, in the time zone of ``at``."""
    today = at.replace(hour=0, minute=0, second=0, microsecond=0)
    end = today - timedelta(days=today.weekday())
    return end - timedelta(days=7), end


def summary(counts: Sequence[ObservedCount]) -> str:
    lines = [f"{each.checkpoint_id}: {described(each)}" for each in counts[:MAX_LINES]]
    more = len(counts) - MAX_LINES
    return "\n".join([*lines, f"and {more} more"] if more > 0 else lines)


def described(count: ObservedCount) -> str:
    sentence = f"would have asked {count.asks:,} of {_calls(count.judged)}"
    if count.asks:
        sentence += f", of which {count.asked_anyway:,} were asked anyway"
    if count.frees:
        sentence += f"; {count.frees:,} that were asked would run without a person"
    return sentence


def _calls(number: int) -> str:
    return f"{number:,} call{'' if number == 1 else 's'}"

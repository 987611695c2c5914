"""What checkpoints in observe mode would have asked, and their keys in a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal

from agent.domain.checkpoint_fields import one_of

LONGEST = timedelta(days=30)
"""Distance of `observe_until` when applied, so that no observation is forgotten."""

MAX_LINES = 20


@dataclass(frozen=True, slots=True)
class Observation:
    """What one observed checkpoint would have done with one action, had it been enforced."""

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
    """How often one version of an observed checkpoint would have asked about calls, or let them run."""

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


def summary(counts: Sequence[ObservedCount]) -> str:
    """Return a line for each observed checkpoint, at most 20, and the number of those left out."""
    lines = [f"{each.checkpoint_id}: {described(each)}" for each in counts[:MAX_LINES]]
    more = len(counts) - MAX_LINES
    return "\n".join([*lines, f"and {more} more"] if more > 0 else lines)


def described(count: ObservedCount) -> str:
    """Return a sentence on how many calls an observed checkpoint would have asked about, or let run."""
    sentence = f"would have asked {count.asks:,} of {_calls(count.judged)}"
    if count.asks:
        sentence += f", of which {count.asked_anyway:,} were asked anyway"
    if count.frees:
        sentence += f"; {count.frees:,} that were asked would run without a person"
    return sentence


def _calls(number: int) -> str:
    return f"{number:,} call{'' if number == 1 else 's'}"


OBSERVE = "observe"


def mode(value: Any) -> str:
    """Return whether a checkpoint is in force or only observed (enforce, observe), or raise ValueError."""
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

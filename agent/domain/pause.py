"""Pausing: approved calls do not begin while their agent, or every agent, is paused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class Pause:
    """A stop in force; ``agent`` is ``None`` when it stops every agent. ``by`` is as the record names people."""

    agent: str | None
    by: str
    reason: str | None
    since: datetime

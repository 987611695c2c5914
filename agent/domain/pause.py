"""Approved calls do not begin while their agent, or every agent, is paused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class Pause:
    """``agent`` is ``None`` for all. ``by``: the actor in the audit log."""

    agent: str | None
    by: str
    reason: str | None
    since: datetime

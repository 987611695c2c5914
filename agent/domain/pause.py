"""Approved calls do not begin while their agent, or every agent, is paused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from signoff.errors import Conflict

EVERYTHING = "*"
PAUSED = "the agent is paused: nothing begins until it is resumed"


class AgentPaused(Conflict):
    """Nothing of the agent begins until it is resumed."""


@dataclass(frozen=True, slots=True)
class Pause:
    """``agent`` is ``None`` for all. ``by``: the actor in the audit log."""

    agent: str | None
    by: str
    reason: str | None
    since: datetime


def check_not_paused(pauses: Iterable[Pause], agent: str) -> None:
    """Raises AgentPaused."""
    if any(each.agent in {None, agent} for each in pauses):
        raise AgentPaused(PAUSED)

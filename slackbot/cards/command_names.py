"""What this installation is called in Slack: Slack gives a command's name to the app that was installed last."""

from __future__ import annotations

import re
from dataclasses import dataclass

AGENT, APPROVALS = "/agent", "/approvals"
LABEL = "Signoff"

_OURS = re.compile(r"(?<![\w/])/(agent|approvals)\b")


@dataclass(frozen=True, slots=True)
class CommandNames:
    """What an installation calls its two slash commands and itself."""

    agent: str = AGENT
    approvals: str = APPROVALS
    label: str = LABEL

    def spelled(self, words: str) -> str:
        """Our own words, which say `/agent` and `/approvals`, with this installation's names; never others' words."""
        return _OURS.sub(lambda found: self.agent if found[0] == AGENT else self.approvals, words)


DEFAULT_NAMES = CommandNames()

"""Is a person a member of the workspace, as far as Slack confirms it now?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from agent.domain.errors import Refusal, Refused
from signoff.values import Person
from slackbot.slack_api.directory import Directory

_MAY_NOT = {
    Refusal.GUEST: "Guests of this workspace cannot start agents or talk to them.",
    Refusal.EXTERNAL: "You belong to another workspace; only members of this one can start agents or talk to them.",
    Refusal.STRANGER: "Slack does not know you as a member of this workspace, so you cannot start agents.",
    Refusal.LOOKUP_FAILED: "Slack did not confirm who you are, so nothing was started. Please try again in a moment.",
    Refusal.RATE_LIMITED_LOOKUP: (
        "Slack asked us to slow down before we could check who you are, so nothing was started. "
        "Please try again in a minute."
    ),
}


class NotAMember(Refused):
    """A refusal of a person whom Slack does not confirm as a member; `sentence` tells them why."""

    def __init__(self, code: Refusal) -> None:
        super().__init__(code)
        self.sentence = _MAY_NOT.get(code) or self.sentence.replace("review requests", "start agents")


class Connected(Protocol):
    """A connection to Slack, of which a check of members needs only the directory."""

    @property
    def directory(self) -> Directory: ...


async def check_connected(connection: Callable[[], Connected | None], person: Person | None) -> None:
    """``connection`` returns ``None`` until Slack has identified us; then nobody is confirmed. Raises NotAMember."""
    connected = connection()
    if connected is not None:
        await check_member(connected.directory, person)
    elif person is not None:
        raise NotAMember(Refusal.LOOKUP_FAILED)


async def check_member(directory: Directory, person: Person | None) -> None:
    """Raise NotAMember unless Slack confirms membership now. None (a program) passes."""
    standing = await directory.identify(person) if person else None
    if standing is not None and standing.refusal is not None:
        raise NotAMember(standing.refusal)

"""Checks of a grant's use that need Slack and the secret scan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from agent.domain.errors import Refusal
from agent.domain.grants import CallToCover
from agent.domain.people import Standing
from signoff.values import Person
from slackbot.masking import is_scanned
from slackbot.reviewing.members import Connected


@dataclass(frozen=True, slots=True)
class SlackGrantChecks:
    """``connection`` returns ``None`` until Slack has identified us."""

    connection: Callable[[], Connected | None]

    async def standings(
        self, people: Collection[Person], approvers: Sequence[str], channel_id: str
    ) -> Mapping[Person, Standing]:
        """Current rights, from answers at most a minute old."""
        connected = self.connection()
        if connected is None:
            return {each: Standing(each, refusal=Refusal.LOOKUP_FAILED) for each in people}
        return await connected.directory.standings(people, approvers, channel_id)

    async def is_scanned(self, call: CallToCover) -> bool:
        return await is_scanned(call.action.arguments, call.facts.values, call.rule.redact)

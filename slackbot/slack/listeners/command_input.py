"""A slash command as it was typed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from signoff.values import Person
from slackbot.cards import Card
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.run_starts import split, unescape


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """`verb` is its first word in small letters, `rest` what follows; `body` Slack's own form."""

    person: Person
    channel_id: str
    trigger_id: str
    verb: str
    rest: str
    body: Mapping[str, Any]

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> SlashCommand:
        """From a slash command's form. Slack has its `team_id` as the team that the person typed it in."""
        verb, rest = split(unescape(body.get("text") or ""))
        person = Person(body["team_id"], body["user_id"])
        return cls(person, body["channel_id"], body["trigger_id"], verb.lower(), rest, body)


Verb = Callable[[ListenerContext, SlashCommand], Awaitable[Card | None]]
"""What a command does, and its answer; `None` when a modal is the answer."""

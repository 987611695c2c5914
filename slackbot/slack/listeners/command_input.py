"""A slash command as a value."""

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
    """`verb` is the first word in lower case, `rest` the remainder; `body` is Slack's form."""

    person: Person
    channel_id: str
    trigger_id: str
    verb: str
    rest: str
    body: Mapping[str, Any]

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> SlashCommand:
        """`team_id` is the team in which the person typed."""
        verb, rest = split(unescape(body.get("text") or ""))
        person = Person(body["team_id"], body["user_id"])
        return cls(person, body["channel_id"], body["trigger_id"], verb.lower(), rest, body)


Verb = Callable[[ListenerContext, SlashCommand], Awaitable[Card | None]]
"""`None`: a modal is the answer."""

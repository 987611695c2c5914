from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from signoff.values import Person
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.run_starts import unescape

_MESSAGE_SUBTYPES = (None, "thread_broadcast", "file_share")
_MENTION = re.compile(r"\s*<@(?P<user>[UW][A-Z0-9]+)(?:\|[^>]*)?>[\s:,]*")


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """A person's message, without a leading mention of us. `direct`: in the person's conversation with the app."""

    person: Person
    channel_id: str
    ts: str
    thread_ts: str | None
    words: str
    direct: bool

    @property
    def key(self) -> str:
        """Identifies the message: a mention arrives as two events, each possibly several times."""
        return f"message:{self.channel_id}:{self.ts}"

    @classmethod
    def read(cls, event: Mapping[str, Any], ctx: ListenerContext) -> IncomingMessage | None:
        """`None` unless a person wrote it now: for edits, joins, bots and our own."""
        user = event.get("user")
        if event.get("subtype") not in _MESSAGE_SUBTYPES or event.get("bot_id") or not isinstance(user, str):
            return None
        if user == ctx.directory.own_bot_user_id:
            return None
        text = event.get("text") or ""
        called = _MENTION.match(text)
        if called and called["user"] == ctx.directory.own_bot_user_id:
            text = text[called.end() :]
        team_id = event.get("user_team") or event.get("source_team") or event.get("team")
        return cls(
            Person(team_id or ctx.directory.own_team_id, user),
            event["channel"],
            event["ts"],
            event.get("thread_ts"),
            unescape(text).strip(),
            direct=event.get("channel_type") == "im",
        )

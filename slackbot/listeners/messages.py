"""What people write: replies in an agent's thread are heard, mentions start agents, everything else is not for us.

A word in a request's thread decides nothing. An exception here is not caught: Slack is then not answered and
sends the event again, and the message's own place is the key by which it is heard once.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slack_bolt.async_app import AsyncApp

from agent import runs
from agent.domain.errors import Refusal, Refused
from agent.store import reads
from signoff.values import Person
from slackbot.beginning import may_not
from slackbot.cards import Card, refusal_text, usage
from slackbot.identity import LookupFailed, RateLimited
from slackbot.listeners.doors import Doors
from slackbot.listeners.starting import split, start, unescaped
from slackbot.listeners.texts import objection

NOT_HERE = (
    "I listen in an agent's own thread only. Start agents in the channel itself, and decide requests with the "
    "buttons of their card."
)
_SPOKEN = (None, "thread_broadcast", "file_share")
_MENTION = re.compile(r"\s*<@(?P<user>[UW][A-Z0-9]+)(?:\|[^>]*)?>[\s:,]*")


@dataclass(frozen=True, slots=True)
class Said:
    """A person's message. `words` are as typed, without a mention of us in front."""

    person: Person
    channel_id: str
    ts: str
    thread_ts: str | None
    words: str

    @property
    def key(self) -> str:
        """A mention arrives as two events, and each of them perhaps several times: this names the message."""
        return f"message:{self.channel_id}:{self.ts}"

    @classmethod
    def read(cls, event: Mapping[str, Any], doors: Doors) -> Said | None:
        """`None` for what no person has just written: edits, joins, bots, our own."""
        user = event.get("user")
        if event.get("subtype") not in _SPOKEN or event.get("bot_id") or not isinstance(user, str):
            return None
        if user == doors.directory.own_bot_user_id:
            return None
        text = event.get("text") or ""
        called = _MENTION.match(text)
        if called and called["user"] == doors.directory.own_bot_user_id:
            text = text[called.end() :]
        team_id = event.get("user_team") or event.get("source_team") or event.get("team")
        person = Person(team_id or doors.directory.own_team_id, user)
        return cls(person, event["channel"], event["ts"], event.get("thread_ts"), unescaped(text).strip())


def register(app: AsyncApp, doors: Doors) -> None:
    """Messages and mentions."""

    @app.event("message")
    async def message(event: dict[str, Any]) -> None:
        said = Said.read(event, doors)
        if said is not None and said.words and said.thread_ts:
            await _reply(doors, said, tell=True)

    @app.event("app_mention")
    async def mention(event: dict[str, Any]) -> None:
        said = Said.read(event, doors)
        if said is None or (said.words and said.thread_ts and await _reply(doors, said, tell=False)):
            return
        if said.thread_ts:
            _whisper(doors, said, Card(NOT_HERE, []))
            return
        verb, rest = split(said.words)
        if verb.lower() != "run":
            _whisper(doors, said, usage("/agent"))
            return
        if problem := objection(rest):
            _whisper(doors, said, Card(refusal_text(problem), []))
            return
        async with asyncio.timeout(doors.budget):
            card = await start(
                doors,
                said.person,
                rest,
                channel_id=said.channel_id,
                start_key=said.key,
                by="slack:mention",
            )
        _whisper(doors, said, card)


async def _reply(doors: Doors, said: Said, *, tell: bool) -> bool:
    """Let the thread's run hear it. False: it is no run's thread. Raises when it is not known who speaks.

    `tell`: say so to somebody who is not listened to; one of a message's two events is enough for that.
    """
    team_id = doors.directory.own_team_id
    async with asyncio.timeout(doors.budget):
        async with doors.db.connection() as connection:
            run_id = await reads.run_in_thread(connection, team_id, said.channel_id, said.thread_ts or "")
        if run_id is None:
            return False
        standing = await doors.directory.identify(said.person)
        if standing.refusal is Refusal.RATE_LIMITED_LOOKUP:
            raise RateLimited("users.info")
        if standing.refusal is Refusal.LOOKUP_FAILED:
            raise LookupFailed("users.info")
        if standing.refusal is not None:
            if tell:
                _whisper(doors, said, Card(may_not(standing.refusal), []))
            return True
        if problem := objection(said.words):
            if tell:
                _whisper(doors, said, Card(refusal_text(problem), []))
            return True
        administrator = await doors.directory.is_admin(said.person)
        try:
            await runs.hear(doors.db, run_id, said.words, said.person, said.key, administrator=administrator)
        except Refused as refused:
            if tell:
                _whisper(doors, said, Card(refused.sentence, []))
        return True


def _whisper(doors: Doors, said: Said, card: Card) -> None:
    doors.whisper_in(said.channel_id, said.person.user_id, card, said.thread_ts)

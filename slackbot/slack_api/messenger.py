"""What we say in Slack, one call at a time, and what a failure means: later, perhaps taken already, never."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from slackbot import cards
from slackbot.cards import Card
from slackbot.slack_api.error_codes import Meaning, meaning_of

TIMEOUT = 8
"""Seconds for one call to Slack; a destination's lease is longer (`agent.usecases.deliveries.LEASE_SECONDS`)."""

PAGES = 5
"""How far back (of 200 messages each) a message is looked for."""

UNSAID = 30.0
"""Seconds to be silent after a 429 that does not say how long."""

MAX_CODE = 80
"""Characters of an error code; Slack's have 40 at most, and whatever answers in its place is told to people."""


class SlackUnavailable(Exception):
    """Slack did not take it now.

    `seconds`: how long Slack asked us to be silent, if it did. `taken`: it may have taken it after all.
    `by_people`: nothing will change until somebody mends the channel or the token; `channel`: it is the channel.
    `unknown`: Slack refused it with a code that we do not know.
    """

    def __init__(
        self,
        words: str,
        *,
        seconds: float | None = None,
        taken: bool = False,
        by_people: bool = False,
        channel: bool = False,
        unknown: bool = False,
    ) -> None:
        super().__init__(words)
        self.words = words
        self.seconds = seconds
        self.taken = taken
        self.by_people = by_people
        self.channel = channel
        self.unknown = unknown


class SlackRefusal(Exception):
    """Slack will never take this message, or never change the old one; `code` is its word for why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Messenger:
    """Posts, changes and finds messages. `client` must not retry on its own: a re-sent post is a second card.

    A 429 silences the method it was given for, everywhere (a post: in its channel), until its `Retry-After`.
    """

    def __init__(
        self, client: AsyncWebClient, own_bot_user_id: str, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._client = client
        self._own = own_bot_user_id
        self._clock = clock
        self._silent_until: dict[tuple[str, str], float] = {}

    async def post(self, channel: str, card: Card, thread_ts: str | None) -> str:
        """Returns the message's `ts`. Raises SlackUnavailable and SlackRefusal."""
        place = {"thread_ts": thread_ts} if thread_ts else {}
        quiet = {"unfurl_links": False, "unfurl_media": False}
        answer = await self._call("chat.postMessage", channel, **place, **_content(card), **quiet)
        ts = answer.get("ts")
        if not isinstance(ts, str):
            raise SlackUnavailable("chat.postMessage answered without a ts", taken=True)
        return ts

    async def update(self, channel: str, ts: str, card: Card) -> None:
        """Raises SlackUnavailable and SlackRefusal."""
        await self._call("chat.update", channel, ts=ts, **_content(card))

    async def find(self, channel: str, delivery: str, thread_ts: str | None) -> str | None:
        """The `ts` of this delivery's message, if Slack took it after all.

        Raises SlackUnavailable and SlackRefusal.
        """
        method = "conversations.replies" if thread_ts else "conversations.history"
        asked: dict[str, Any] = {"include_all_metadata": True, "limit": 200}
        if thread_ts:
            asked["ts"] = thread_ts
        for _ in range(PAGES):
            page = await self._call(method, channel, **asked)
            for message in page.get("messages") or []:
                if message.get("user") == self._own and _delivery_of(message) == delivery:
                    return str(message["ts"])
            asked["cursor"] = (page.get("response_metadata") or {}).get("next_cursor") or ""
            if not asked["cursor"]:
                break
        return None

    async def _call(self, method: str, channel: str, **arguments: Any) -> dict[str, Any]:
        """One call. Whether Slack may have taken it matters only for posts: an update can be repeated."""
        key = (method, channel if method == "chat.postMessage" else "")
        if (silent := self._silent_until.get(key, 0.0) - self._clock()) > 0:
            raise SlackUnavailable("Slack asked to slow down", seconds=silent)
        try:
            return await self._ask(method, {"channel": channel, **arguments})
        except SlackUnavailable as later:
            if later.seconds is not None:
                self._silent_until[key] = self._clock() + later.seconds
            raise

    async def _ask(self, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        posts = method == "chat.postMessage"
        body, query = (arguments, None) if "blocks" in arguments else (None, arguments)
        try:
            async with asyncio.timeout(TIMEOUT):
                answer = await self._client.api_call(method, json=body, params=query)
        except SlackApiError as error:
            raise _failure(method, error, posts=posts) from error
        except (TimeoutError, aiohttp.ClientError, OSError, SlackClientError) as error:
            raise SlackUnavailable(f"{method}: {type(error).__name__}", taken=posts) from error
        if not isinstance(answer.data, dict):
            raise SlackUnavailable(f"{method}: an answer that is none", taken=posts)
        return answer.data


def _content(card: Card) -> dict[str, Any]:
    content = {"text": card.text, "blocks": card.blocks, "parse": "none", "link_names": False}
    return content | ({"metadata": card.metadata} if card.metadata else {})


def _failure(method: str, error: SlackApiError, *, posts: bool) -> SlackUnavailable | SlackRefusal:
    """What follows from Slack's answer. Never only where its code speaks about this very message."""
    response = error.response  # the HTTP library's own when the body could not be read
    data = getattr(response, "data", None)
    code = str(data.get("error") or "")[:MAX_CODE] if isinstance(data, dict) else ""
    status = int(getattr(response, "status_code", 0) or getattr(response, "status", 0) or 0)
    meaning = meaning_of(code, method)
    if status == 429 or meaning is Meaning.SLOW_DOWN:
        asked = str((getattr(response, "headers", None) or {}).get("Retry-After", ""))
        seconds = max(1.0, float(asked)) if asked.isascii() and asked.isdigit() else UNSAID
        return SlackUnavailable(f"{method}: Slack asks to slow down", seconds=seconds)
    if meaning in (Meaning.CHANNEL, Meaning.TOKEN):
        words = f"{method}: Slack refuses: {code}"
        return SlackUnavailable(words, by_people=True, channel=meaning is Meaning.CHANNEL)
    if status >= 500 or not code or meaning is Meaning.PASSING:
        return SlackUnavailable(f"{method}: Slack answers {code or status}", taken=posts)
    if meaning is Meaning.UNKNOWN:
        # Without the method: these words are the cause, of which operators are told once.
        return SlackUnavailable(f"Slack answers with the error {code}; Signoff tries again", unknown=True)
    return SlackRefusal(code)


def _delivery_of(message: dict[str, Any]) -> str | None:
    metadata = message.get("metadata") or {}
    if metadata.get("event_type") != cards.EVENT_TYPE:
        return None
    found: str | None = (metadata.get("event_payload") or {}).get("delivery")
    return found

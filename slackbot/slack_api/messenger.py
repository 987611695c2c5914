"""Messages are posted, changed, and found again by their metadata."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from slack_sdk.web.async_slack_response import AsyncSlackResponse

from slackbot import cards
from slackbot.cards import Card
from slackbot.slack_api.client import SlackClient, SlackError, SlackUnavailable
from slackbot.slack_api.error_codes import Meaning

PAGES = 10
"""Pages (of 200 messages each) searched for a message."""

SKEW = 600.0
"""Seconds that our clock may be ahead of Slack's."""


@dataclass(frozen=True, slots=True)
class PostedMessage:
    """``is_card``: of one request."""

    ts: str
    is_card: bool


class TooManyMessages(SlackError):
    """Others than ``found`` may stand among the messages that were not searched."""

    meaning = Meaning.UNKNOWN

    def __init__(self, found: dict[str, PostedMessage]) -> None:
        super().__init__("too many messages to find out whether Slack accepted one; Signoff tries again")
        self.found = found


class Messenger:
    """All methods raise SlackError."""

    def __init__(self, client: SlackClient, own_bot_user_id: str) -> None:
        self._client = client
        self._own = own_bot_user_id

    async def say(self, channel: str, card: Card, *, ts: str | None, thread_ts: str | None) -> str:
        """Change the message `ts`, or post one. Returns its `ts`."""
        if ts is not None:
            await self._call("chat.update", channel, ts=ts, **_content(card))
            return ts
        place = {"thread_ts": thread_ts} if thread_ts else {}
        quiet = {"unfurl_links": False, "unfurl_media": False}
        answer = await self._call("chat.postMessage", channel, **place, **_content(card), **quiet)
        posted = answer.get("ts")
        if not isinstance(posted, str):
            raise SlackUnavailable("chat.postMessage answered without a ts", taken=True)
        return posted

    async def find(self, channel: str, delivery: str, thread_ts: str | None, since: float) -> str | None:
        """The `ts` of this delivery's message, if Slack accepted it after all. Raises what `find_all` raises."""
        found = await self.find_all(channel, [delivery], thread_ts, since)
        return found[delivery].ts if found else None

    async def find_all(
        self, channel: str, deliveries: Collection[str], thread_ts: str | None, since: float
    ) -> dict[str, PostedMessage]:
        """Those that Slack accepted after all, at ``since`` (epoch seconds) or later. Raises TooManyMessages, too."""
        found: dict[str, PostedMessage] = {}
        method = "conversations.replies" if thread_ts else "conversations.history"
        # No `latest`: after a search that found nothing, a later attempt may have been accepted.
        asked: dict[str, Any] = {"include_all_metadata": True, "limit": 200, "oldest": f"{since - SKEW:.6f}"}
        if thread_ts:
            asked["ts"] = thread_ts
        for _ in range(PAGES):
            page = await self._call(method, channel, **asked)
            for message in page.get("messages") or []:
                ids = _ids_of(message) if message.get("user") == self._own else {}
                if (delivery := ids.get("delivery")) in deliveries:
                    found[str(delivery)] = PostedMessage(str(message["ts"]), "request" in ids)
            asked["cursor"] = (page.get("response_metadata") or {}).get("next_cursor") or ""
            if not asked["cursor"] or len(found) == len(deliveries):
                return found
        raise TooManyMessages(found)

    async def stands(self, channel: str, ts: str) -> bool:
        """Whether this message of ours is still there. What the workspace's plan hides may be."""
        asked = {"oldest": ts, "latest": ts, "inclusive": True, "limit": 1}
        page = await self._call("conversations.history", channel, **asked)
        found = [each for each in page.get("messages") or [] if each.get("ts") == ts]
        # Of a deleted message with a thread, Slack leaves a tombstone, which is nobody's.
        return bool(page.get("is_limited")) or any(each.get("user") == self._own for each in found)

    async def _call(self, method: str, channel: str, **arguments: Any) -> AsyncSlackResponse:
        asked = {"channel": channel, **arguments}
        body, query = (asked, None) if "blocks" in asked else (None, asked)
        return await self._client.api_call(method, json=body, params=query)


def _content(card: Card) -> dict[str, Any]:
    content = {"text": card.text, "blocks": card.blocks, "parse": "none", "link_names": False}
    return content | ({"metadata": card.metadata} if card.metadata else {})


def _ids_of(message: dict[str, Any]) -> dict[str, Any]:
    metadata = message.get("metadata") or {}
    if metadata.get("event_type") != cards.EVENT_TYPE:
        return {}
    return metadata.get("event_payload") or {}

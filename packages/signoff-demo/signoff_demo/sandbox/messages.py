"""The messages of the workspace: channels, threads, and ephemeral ones."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

from signoff_demo.sandbox.refusal import Json, SandboxRefusal

EARLIER = 20
"""Versions of a message that screens may still show."""


class Timestamps:
    """Seconds with six digits, unique and increasing within the workspace."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> str:
        self._last = max(int(time.time() * 1_000_000), self._last + 1)
        return f"{self._last // 1_000_000}.{self._last % 1_000_000:06d}"


class Messages:
    """Raw Slack objects. Returned messages share nested values with stored ones; changes replace whole fields."""

    def __init__(self, timestamps: Timestamps) -> None:
        self._timestamps = timestamps
        self._channels: dict[str, dict[str, Json]] = {}
        self._replies: dict[tuple[str, str], list[str]] = {}
        self._ephemeral: list[Json] = []
        self._earlier: dict[tuple[str, str], deque[Json]] = {}

    def add(self, channel: str, message: Json, thread_ts: str | None = None) -> Json:
        """A reply to a reply goes to the root's thread. Raises SandboxRefusal `thread_not_found` if there is no such
        root.
        """
        ts = self._timestamps.next()
        stored = {**message, "ts": ts}
        if thread_ts is not None:
            target = self._channels.get(channel, {}).get(thread_ts)
            if target is None:
                raise SandboxRefusal("thread_not_found")
            root = str(target.get("thread_ts", thread_ts))
            stored["thread_ts"] = root
            stored["parent_user_id"] = self._channels[channel][root].get("user")
            self._replies.setdefault((channel, root), []).append(ts)
            self._channels[channel][root]["thread_ts"] = root
        self._channels.setdefault(channel, {})[ts] = stored
        return self.get(channel, ts)

    def find(self, channel: str, ts: str) -> Json | None:
        """The message with its thread's counts."""
        stored = self._channels.get(channel, {}).get(ts)
        if stored is None:
            return None
        message = dict(stored)
        replies = self._replies.get((channel, ts))
        if replies:
            authors = list(dict.fromkeys(self._author(channel, reply) for reply in replies))
            message |= {
                "thread_ts": ts,
                "reply_count": len(replies),
                "reply_users_count": len(authors),
                "latest_reply": replies[-1],
                "reply_users": authors[:5],
                "is_locked": False,
                "subscribed": False,
            }
        return message

    def get(self, channel: str, ts: str) -> Json:
        """Raises SandboxRefusal `message_not_found`."""
        message = self.find(channel, ts)
        if message is None:
            raise SandboxRefusal("message_not_found")
        return message

    def earlier(self, channel: str, ts: str) -> list[Json]:
        """What the message was before its last changes, newest first."""
        return list(self._earlier.get((channel, ts), ()))

    def change(self, channel: str, ts: str, changes: Json, remove: Iterable[str] = ()) -> Json:
        stored = self._channels[channel][ts]
        self._remember(channel, ts, stored)
        stored.update(changes)
        for name in remove:
            stored.pop(name, None)
        return self.get(channel, ts)

    def delete(self, channel: str, ts: str) -> Json:
        """A root with replies leaves a tombstone. Returns the deleted message."""
        message = self.get(channel, ts)
        root = message.get("thread_ts")
        if root is not None and root != ts:
            self._replies[channel, root].remove(ts)
        if self._replies.get((channel, ts)):
            self._channels[channel][ts] = {
                "type": "message",
                "subtype": "tombstone",
                "user": "USLACKBOT",
                "text": "This message was deleted.",
                "hidden": True,
                "ts": ts,
                "thread_ts": ts,
            }
        else:
            del self._channels[channel][ts]
        return message

    def roots(self, channel: str) -> list[Json]:
        """As in `conversations.history`, oldest first: without replies, except those also sent to the channel."""
        return [
            self.get(channel, ts)
            for ts, message in self._channels.get(channel, {}).items()
            if message.get("thread_ts", ts) == ts or message.get("subtype") == "thread_broadcast"
        ]

    def thread(self, channel: str, ts: str) -> list[Json]:
        """A root and its replies, oldest first; also found by the `ts` of a reply. Raises SandboxRefusal
        `thread_not_found`.
        """
        message = self.find(channel, ts)
        if message is None:
            raise SandboxRefusal("thread_not_found")
        root = str(message.get("thread_ts", ts))
        return [self.get(channel, each) for each in [root, *self._replies.get((channel, root), [])]]

    def post_ephemeral(self, channel: str, user: str, message: Json) -> Json:
        shown = {
            **message,
            "ts": self._timestamps.next(),
            "channel": channel,
            "is_ephemeral": True,
        }
        self._ephemeral.append({"user": user, "channel": channel, "message": shown})
        return dict(shown)

    def ephemeral_messages(self, user: str | None = None, channel: str | None = None) -> list[Json]:
        """Oldest first, each with its `channel`."""
        return [
            dict(each["message"])
            for each in self._ephemeral
            if user in (None, each["user"]) and channel in (None, each["channel"])
        ]

    def ephemeral_by_user(self, channel: str) -> dict[str, list[Json]]:
        users = dict.fromkeys(each["user"] for each in self._ephemeral if each["channel"] == channel)
        return {user: self.ephemeral_messages(user, channel) for user in users}

    def change_ephemeral(self, user: str, ts: str, message: Json | None) -> bool:
        """None deletes it. Returns False if it does not exist."""
        for index, each in enumerate(self._ephemeral):
            if each["user"] == user and each["message"]["ts"] == ts:
                if message is None:
                    del self._ephemeral[index]
                else:
                    self._remember(each["channel"], ts, each["message"])
                    kept = {name: each["message"][name] for name in ("ts", "channel", "is_ephemeral")}
                    each["message"] = {**message, **kept}
                return True
        return False

    def _remember(self, channel: str, ts: str, message: Json) -> None:
        self._earlier.setdefault((channel, ts), deque(maxlen=EARLIER)).appendleft(dict(message))

    def _author(self, channel: str, ts: str) -> str:
        message = self._channels[channel][ts]
        return str(message.get("user") or message.get("bot_id"))

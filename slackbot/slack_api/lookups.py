"""Cached look-ups: one request at a time for each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

from slack_sdk.web.async_slack_response import AsyncSlackResponse

from slackbot.slack_api.client import SlackClient, SlackRefused, SlackUnavailable

K = TypeVar("K")
V = TypeVar("V")

LOOKUP_LIMIT = 5.0
"""Seconds; longer than a click waits: a slow answer serves the next click."""

PAGE_LIMIT = 200
"""Pages of one listing (1,000 entries each) after which Slack's answer is not believed."""

_MAX_ANSWERS = 4096  # beyond this, old answers are dropped


class CachedAnswer(Generic[K, V]):
    """Answers for `max_age` seconds since the request. One look-up per key at a time; failures are not cached."""

    def __init__(
        self,
        look_up: Callable[[K], Awaitable[V]],
        max_age: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look_up = look_up
        self._max_age = max_age
        self._clock = clock
        self._answers: dict[K, tuple[float, V]] = {}
        self._tasks: dict[K, asyncio.Task[V]] = {}

    def kept(self, key: K) -> tuple[V] | None:
        answer = self._answers.get(key)
        return (answer[1],) if answer is not None and self._clock() - answer[0] < self._max_age else None

    async def get(self, key: K) -> V:
        """Raises what the look-up raises. Giving up early leaves it to other waiters."""
        if (kept := self.kept(key)) is not None:
            return kept[0]
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(self._fetch(key))
            task.add_done_callback(lambda done: self._finish(key, done))
        return await asyncio.shield(task)

    def forget(self, key: K) -> None:
        """A response in progress is not cached, either."""
        self._answers.pop(key, None)
        self._tasks.pop(key, None)

    def forget_everything(self) -> None:
        self._answers.clear()
        self._tasks.clear()

    async def _fetch(self, key: K) -> V:
        asked_at = self._clock()
        async with asyncio.timeout(LOOKUP_LIMIT):
            value = await self._look_up(key)
        if self._tasks.get(key) is asyncio.current_task():
            self._make_room()
            self._answers[key] = (asked_at, value)
        return value

    def _finish(self, key: K, task: asyncio.Task[V]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        if not task.cancelled():
            task.exception()  # all waiters may have gone: nobody else would retrieve it

    def _make_room(self) -> None:
        if len(self._answers) >= _MAX_ANSWERS:
            oldest = self._clock() - self._max_age
            self._answers = {key: answer for key, answer in self._answers.items() if answer[0] > oldest}


class SlackLookups:
    """Raises SlackError, from which nothing may be concluded."""

    def __init__(self, client: SlackClient) -> None:
        self._client = client

    async def account(self, user_id: str) -> Mapping[str, Any] | None:
        """`users.info`; `None`: Slack does not know the id."""
        answer = await self._ask(
            "users.info", {"user": user_id}, unknown={"user_not_found", "user_not_visible"}
        )
        if answer is None:
            return None
        user = answer.get("user")
        if not isinstance(user, dict) or user.get("id") != user_id:
            raise SlackUnavailable("users.info answered about somebody else")
        return user

    async def group(self, group_id: str) -> frozenset[str]:
        """A missing group has no members."""
        answer = await self._ask(
            "usergroups.users.list", {"usergroup": group_id}, unknown={"no_such_subteam"}
        )
        return frozenset() if answer is None else _ids(answer.get("users"))

    async def handles(self, _: str) -> Mapping[str, str]:
        answer = await self._ask("usergroups.list", {}, unknown=set())
        groups = answer.get("usergroups") if answer is not None else None
        return {str(group["id"]): str(group.get("handle") or group["id"]) for group in groups or []}

    async def members(self, channel_id: str) -> frozenset[str]:
        found: set[str] = set()
        cursor = ""
        for _ in range(PAGE_LIMIT):
            page = {"channel": channel_id, "limit": 1000} | ({"cursor": cursor} if cursor else {})
            answer = await self._ask("conversations.members", page, unknown={"channel_not_found"})
            if answer is None:
                return frozenset()
            found |= _ids(answer.get("members"))
            cursor = (answer.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                return frozenset(found)
        raise SlackUnavailable("conversations.members never ends")

    async def channel(self, channel_id: str) -> Mapping[str, Any] | None:
        """`conversations.info`; `None`: no channel that the bot may see."""
        args = {"channel": channel_id}
        answer = await self._ask("conversations.info", args, unknown={"channel_not_found"})
        if answer is None:
            return None
        channel = answer.get("channel")
        if not isinstance(channel, dict) or channel.get("id") != channel_id:
            raise SlackUnavailable("conversations.info answered about another channel")
        return channel

    async def _ask(self, method: str, args: dict[str, Any], unknown: set[str]) -> AsyncSlackResponse | None:
        """`None`: an error listed in `unknown`."""
        try:
            return await self._client.api_call(method, data=args)  # aiohttp retries GET
        except SlackRefused as error:
            if error.code in unknown:
                return None
            raise


def _ids(listed: object) -> frozenset[str]:
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise SlackUnavailable("an invalid list of members")
    return frozenset(listed)

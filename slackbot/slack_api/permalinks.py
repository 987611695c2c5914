"""Message addresses from Slack: a hand-built one could stop working."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import replace

from agent.database.background import start_task
from agent.domain.request_view import EarlierRejection, FollowUp, RequestView
from slackbot.slack_api.client import SlackClient, SlackError, SlackRefused

KEPT = 5_000
"""Cached addresses; they never change."""

AT_ONCE = 8
WITHIN = 0.6
"""Seconds that a list waits for its links; later ones are there for the next."""

DELETED = "message_not_found"
"""Slack's answer for a message that was deleted; it does not come back."""

Message = tuple[str, str]
"""A channel's id and a message's `ts`."""


class Permalinks:
    """`chat.getPermalink`, asked until it is answered; messages without an address are left out."""

    def __init__(self, client: SlackClient) -> None:
        self._client = client
        self._known: OrderedDict[Message, str | None] = OrderedDict()
        self._tasks: dict[Message, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(AT_ONCE)

    async def of(self, messages: Collection[Message], *, within: float = WITHIN) -> dict[Message, str]:
        """Addresses known within so many seconds."""
        wanted = set(messages)
        flights = [self._task(each) for each in wanted if each not in self._known]
        if flights:
            await asyncio.wait(flights, timeout=within)
        return {each: link for each in wanted if (link := self._known.get(each)) is not None}

    async def with_card_links(self, view: RequestView) -> RequestView:
        """Add the addresses of the cards on which an expired request is asked again, and on which the action was
        rejected before.
        """
        again, rejected = view.asked_again, view.rejected_before
        cards = [
            (each.channel_id, each.message_ts)
            for each in (again, rejected)
            if each and each.channel_id and each.message_ts
        ]
        if not cards:
            return view
        links = await self.of(cards)
        if again is not None:
            view = replace(view, asked_again=replace(again, link=_link(links, again)))
        if rejected is not None:
            view = replace(view, rejected_before=replace(rejected, link=_link(links, rejected)))
        return view

    def _task(self, message: Message) -> asyncio.Task[None]:
        task = self._tasks.get(message)
        if task is None:
            task = self._tasks[message] = start_task(self._ask(message), "permalink")
            task.add_done_callback(lambda _: self._tasks.pop(message, None))
        return task

    async def _ask(self, message: Message) -> None:
        channel_id, ts = message
        try:
            async with self._room, asyncio.timeout(5.0):
                answer = await self._client.chat_getPermalink(channel=channel_id, message_ts=ts)
        except (SlackError, TimeoutError) as error:
            if isinstance(error, SlackRefused) and error.code == DELETED:
                self._keep(message, None)
        else:
            if isinstance(link := answer.get("permalink"), str):
                self._keep(message, link)

    def _keep(self, message: Message, link: str | None) -> None:
        self._known[message] = link
        while len(self._known) > KEPT:
            self._known.popitem(last=False)


def _link(links: Mapping[Message, str], card: FollowUp | EarlierRejection) -> str | None:
    return links.get((card.channel_id or "", card.message_ts or ""))

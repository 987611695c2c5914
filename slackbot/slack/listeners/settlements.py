"""Retry and Mark as done in a run's thread, for a call in doubt without a card."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal
from uuid import UUID

from slack_bolt.async_app import AsyncApp

from agent.usecases import requests
from signoff.errors import Conflict
from slackbot.cards import ACTION_DONE_CALL, ACTION_RETRY_CALL
from slackbot.slack.listeners.button_click import person_of
from slackbot.slack.listeners.buttons import add_button, on_id
from slackbot.slack.listeners.clicks import NOT_IN_DOUBT
from slackbot.slack.listeners.context import ListenerContext

PATH = "slack_thread"


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """The result is a line in the same thread."""

    add_button(app, ctx, ACTION_RETRY_CALL, on_id(partial(_settle, "retry")))
    add_button(app, ctx, ACTION_DONE_CALL, on_id(partial(_settle, "done")))


async def _settle(
    verdict: Literal["retry", "done"], ctx: ListenerContext, body: dict[str, Any], execution_id: UUID
) -> str | None:
    """Returns a reply for the person. Raises Refused (recorded)."""
    person = person_of(body)
    settler, administrator = await asyncio.gather(
        ctx.directory.identify(person), ctx.directory.is_admin(person)
    )
    try:
        await requests.settle(
            ctx.db,
            execution_id,
            settler,
            verdict,
            administrator=administrator,
            thread=thread_of(body["container"]),
            path=PATH,
        )
    except Conflict:
        return NOT_IN_DOUBT
    return None


def thread_of(container: Mapping[str, Any]) -> tuple[str, str]:
    """The button's place; empty without a thread, which fits no run."""
    return str(container.get("channel_id") or ""), str(container.get("thread_ts") or "")

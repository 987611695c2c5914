"""Buttons in a run's thread: Resume, and Retry and Mark as done for a call in doubt without a card."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal
from uuid import UUID

from slack_bolt.async_app import AsyncApp

from agent.usecases import requests
from agent.usecases.runs import resumption
from signoff.errors import Conflict
from slackbot.cards import ACTION_DONE_CALL, ACTION_RESUME_RUN, ACTION_RETRY_CALL
from slackbot.slack.listeners.buttons import add_button, on_id, person_of
from slackbot.slack.listeners.clicks import NOT_IN_DOUBT
from slackbot.slack.listeners.context import ListenerContext

PATH = "slack_thread"
NOT_FAILED = "This run was already resumed, or can no longer be resumed. Its first message shows its state."


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """What follows is a line in the same thread."""
    add_button(app, ctx, ACTION_RESUME_RUN, on_id(_resume))
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


async def _resume(ctx: ListenerContext, body: dict[str, Any], run_id: UUID) -> str | None:
    """Returns a reply for the person. Raises Refused (recorded)."""
    person = person_of(body)
    by, administrator = await asyncio.gather(ctx.directory.identify(person), ctx.directory.is_admin(person))
    thread = thread_of(body["container"])
    try:
        await resumption.resume(ctx.db, run_id, by, administrator=administrator, thread=thread, path=PATH)
    except Conflict:
        return NOT_FAILED
    return None

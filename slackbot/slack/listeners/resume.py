from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from slack_bolt.async_app import AsyncApp

from agent.usecases.runs import resumption
from signoff.errors import Conflict
from slackbot.cards import ACTION_RESUME_RUN
from slackbot.slack.listeners.button_click import person_of
from slackbot.slack.listeners.buttons import add_button, on_id
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.settlements import PATH, thread_of

NOT_FAILED = "This run was already resumed, or can no longer be resumed. Its first message shows its state."


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """The click is a line in the same thread."""

    add_button(app, ctx, ACTION_RESUME_RUN, on_id(_resume))


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

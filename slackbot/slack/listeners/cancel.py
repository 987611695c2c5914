"""The button that cancels a run."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from slack_bolt.async_app import AsyncApp

from agent.domain.errors import NotFound
from signoff.values import Person
from slackbot.cards import ACTION_CANCEL_RUN
from slackbot.reviewing import cancel as cancellation
from slackbot.slack.listeners.buttons import add_button, on_id, person_of
from slackbot.slack.listeners.context import ListenerContext

PATH = "slack_list"
COMMAND = "slack_command"

CANCELLED = "The run is cancelled. What has already run is not undone; its requests are withdrawn."
OVER = "This run had already ended, so there was nothing to cancel."


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """Register the Cancel button of runs, which stands in lists and in App Home."""
    add_button(app, ctx, ACTION_CANCEL_RUN, on_id(_cancel))


async def _cancel(ctx: ListenerContext, body: dict[str, Any], run_id: UUID) -> str | None:
    """In App Home, redraw instead of replying."""
    outcome = await cancel(ctx, person_of(body), run_id, PATH)
    if (body.get("view") or {}).get("type") != "home" or outcome != CANCELLED:
        return outcome
    ctx.homes.refresh(person_of(body))
    return None


async def cancel(ctx: ListenerContext, person: Person, run_id: UUID, path: str) -> str:
    """Returns the reply. Raises Refused (recorded)."""
    try:
        cancelled = await cancellation.cancel(ctx.db, ctx.directory, person, run_id, path=path)
    except NotFound:
        return cancellation.NO_SUCH_RUN
    return CANCELLED if cancelled else OVER

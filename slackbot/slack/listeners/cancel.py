"""Ending a run: by who started it, or by who may decide what it waits for."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

from slack_bolt.async_app import AsyncApp

from agent.domain.errors import NotFound
from agent.store import views
from agent.usecases import runs
from signoff.values import Person
from slackbot.cards import ACTION_CANCEL_RUN
from slackbot.reviewing.visibility import reviewer_scope
from slackbot.slack.listeners.button_click import person_of
from slackbot.slack.listeners.buttons import add_button, on_id
from slackbot.slack.listeners.context import ListenerContext

PATH = "slack_list"
COMMAND = "slack_command"

CANCELLED = "The run is cancelled. What has run already stays done; what it asked for is withdrawn."
OVER = "This run is over already, so there was nothing to cancel."
NO_SUCH_RUN = "There is no such run, or it is not one that you may cancel."


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """The button in lists of runs."""

    add_button(app, ctx, ACTION_CANCEL_RUN, on_id(_cancel))


async def _cancel(ctx: ListenerContext, body: dict[str, Any], run_id: UUID) -> str | None:
    """End the run; App Home is drawn again instead of a word about it."""
    told = await cancel(ctx, person_of(body), run_id, PATH)
    if (body.get("view") or {}).get("type") != "home" or told != CANCELLED:
        return told
    ctx.homes.refresh(person_of(body))
    return None


async def cancel(ctx: ListenerContext, person: Person, run_id: UUID, path: str) -> str:
    """End the run; the sentence that says what came of it. Raises Refused (recorded)."""
    async with ctx.db.connection() as connection:
        known = await views.cancel_context(connection, run_id)
    if known is None or known.team_id != ctx.directory.own_team_id:
        return NO_SUCH_RUN
    # The requester needs no seat; everybody else may only be a reviewer.
    audiences = () if person == known.requester else known.audiences
    standing, scope = await asyncio.gather(
        ctx.directory.identify(person), reviewer_scope(ctx.directory, person, audiences)
    )
    lost = scope.doubt if not (scope.roles or scope.channels) else None
    by = replace(standing, roles=frozenset(scope.roles), refusal=standing.refusal or lost)
    try:
        return CANCELLED if await runs.cancel(ctx.db, run_id, by, scope.channels, path=path) else OVER
    except NotFound:
        return NO_SUCH_RUN

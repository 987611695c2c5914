"""Retry and Mark as done in a run's thread: a call in doubt that nobody was asked about has no card to settle it on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal
from uuid import UUID

from slack_bolt.async_app import AsyncAck, AsyncApp

from agent.domain.errors import NotFound, Refused
from agent.usecases import requests
from signoff.errors import Conflict
from slackbot.cards import ACTION_DONE_CALL, ACTION_RETRY_CALL, parse_id
from slackbot.slack.listeners.button_click import person_of
from slackbot.slack.listeners.catch_all import OLD_BUTTON
from slackbot.slack.listeners.clicks import GONE, NOT_IN_DOUBT
from slackbot.slack.listeners.context import OUTCOME_UNKNOWN, ListenerContext
from slackbot.slack.listeners.modals import tell

PATH = "slack_thread"


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """Both buttons; what came of it is a line in the same thread."""

    def button(action_id: str, verdict: Literal["retry", "done"]) -> None:
        @app.action(action_id)
        async def pressed(ack: AsyncAck, body: dict[str, Any]) -> None:
            execution_id = parse_id(body["actions"][0].get("value"))
            try:
                async with asyncio.timeout(ctx.budget):
                    told = await _settle(ctx, body, execution_id, verdict) if execution_id else OLD_BUTTON
            except Refused as refused:
                told = refused.sentence
            except Exception:
                tell(ctx, body, OUTCOME_UNKNOWN)
                raise
            await ack()
            if told:
                tell(ctx, body, told)

    button(ACTION_RETRY_CALL, "retry")
    button(ACTION_DONE_CALL, "done")


async def _settle(
    ctx: ListenerContext, body: Mapping[str, Any], execution_id: UUID, verdict: Literal["retry", "done"]
) -> str | None:
    """Returns what the person should be told beyond the line. Raises Refused (recorded)."""
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
    except NotFound:
        return GONE
    return None


def thread_of(container: Mapping[str, Any]) -> tuple[str, str]:
    """Where it was pressed; empty where there is no thread, which fits no run."""
    return str(container.get("channel_id") or ""), str(container.get("thread_ts") or "")

"""Buttons whose work commits before Slack is acknowledged, so that what looks like success is success."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from slack_bolt.async_app import AsyncAck, AsyncApp

from agent.database.errors import DatabaseRefuses
from agent.domain.errors import NotFound, Refused
from slackbot.cards import parse_id
from slackbot.reviewing.votes import OUTCOME_UNKNOWN
from slackbot.slack.listeners.catch_all import OLD_BUTTON
from slackbot.slack.listeners.context import ListenerContext, log_failed
from slackbot.slack.listeners.modals import tell

GONE = "It no longer exists."

Work = Callable[[ListenerContext, dict[str, Any]], Awaitable[str | None]]
"""A button's work; returns a reply for the person."""


def add_button(app: AsyncApp, ctx: ListenerContext, action_id: str, work: Work) -> None:
    """Slack shows a failure, unacknowledged, on the button."""

    @app.action(action_id)
    async def pressed(ack: AsyncAck, body: dict[str, Any]) -> None:
        try:
            async with ctx.in_budget():
                sentence = await work(ctx, body)
        except Refused as refused:
            sentence = refused.sentence
        except NotFound:
            sentence = GONE
        except DatabaseRefuses as error:
            log_failed("a button failed", error)
            sentence = error.sentence
        except Exception:
            tell(ctx, body, OUTCOME_UNKNOWN)
            raise
        await ack()
        if sentence:
            tell(ctx, body, sentence)


def on_id(work: Callable[[ListenerContext, dict[str, Any], UUID], Awaitable[str | None]]) -> Work:
    async def with_id(ctx: ListenerContext, body: dict[str, Any]) -> str | None:
        found = parse_id(body["actions"][0].get("value"))
        return await work(ctx, body, found) if found else OLD_BUTTON

    return with_id

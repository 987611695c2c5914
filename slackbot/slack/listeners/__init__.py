"""Turn payloads into typed values, call the shared logic and respond. No rules live here."""

from __future__ import annotations

from slack_bolt.async_app import AsyncApp

from slackbot.slack.bolt_app import new_app
from slackbot.slack.listeners import (
    agent_form,
    answers,
    cancel,
    catch_all,
    clicks,
    details,
    events,
    forms,
    listing,
    messages,
    middleware,
    shortcuts,
    slash_commands,
    thread_buttons,
    together,
)
from slackbot.slack.listeners.context import BackgroundTasks, ListenerContext

__all__ = ["BackgroundTasks", "ListenerContext", "new_app", "register"]

_ROOMS = (
    middleware,
    clicks,
    details,
    answers,
    thread_buttons,
    listing,
    forms,
    together,
    agent_form,
    cancel,
    slash_commands,
    shortcuts,
    events,
    messages,
)


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """Register all listeners with Bolt; the one that catches what no other takes comes last."""
    for room in (*_ROOMS, catch_all):
        room.register(app, ctx)

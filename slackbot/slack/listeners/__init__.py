"""Turn payloads into typed values, call the shared logic and respond. No rules live here."""

from __future__ import annotations

from slack_bolt.async_app import AsyncApp

from slackbot.slack.bolt_app import new_app
from slackbot.slack.listeners import (
    agent_form,
    answers,
    app_home,
    cancel,
    catch_all,
    clicks,
    details,
    directory_changes,
    forms,
    home_workspace,
    list_buttons,
    messages,
    resume,
    settlements,
    slash_commands,
    unstorable_texts,
)
from slackbot.slack.listeners.context import BackgroundTasks, ListenerContext

__all__ = ["BackgroundTasks", "ListenerContext", "new_app", "register"]

_ROOMS = (
    home_workspace,
    unstorable_texts,
    clicks,
    details,
    answers,
    settlements,
    resume,
    list_buttons,
    forms,
    agent_form,
    cancel,
    slash_commands,
    app_home,
    messages,
    directory_changes,
)


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    for room in (*_ROOMS, catch_all):
        room.register(app, ctx)

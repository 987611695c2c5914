"""Slack's payloads become typed values, are judged and answered. Thin: every rule lies behind these doors."""

from __future__ import annotations

from slack_bolt.async_app import AsyncApp

from slackbot.listeners import (
    agent_form,
    cancelling,
    catch_all,
    changes,
    clicks,
    commands,
    details,
    doubts,
    homes,
    messages,
    modals,
    pages,
    resuming,
    texts,
)
from slackbot.listeners.bolt import new_app
from slackbot.listeners.doors import Asides, Doors

__all__ = ["Asides", "Doors", "new_app", "register"]

_ROOMS = (
    texts,
    clicks,
    details,
    doubts,
    resuming,
    pages,
    modals,
    agent_form,
    cancelling,
    commands,
    homes,
    messages,
    changes,
)


def register(app: AsyncApp, doors: Doors) -> None:
    """Put every listener into an application made by `new_app`."""
    for room in (*_ROOMS, catch_all):
        room.register(app, doors)

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from slack_bolt.async_app import AsyncApp

from agent.database.pools import Database
from slackbot.slack.listeners.directory_changes import NOT_SUBSCRIBED
from slackbot.slack_api import manifest
from tests.integration.listeners.conftest import open_house


async def test_what_is_subscribed_has_a_listener_and_the_reverse(
    database: Database, owner: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack sends every event that a listener waits for, but those that are left out for a reason, and no other."""
    heard: set[str] = set()
    event = AsyncApp.event

    def noted(self: AsyncApp, constraint: Any, *rest: Any, **more: Any) -> Any:
        if isinstance(constraint, str):
            heard.add(constraint)
        return event(self, constraint, *rest, **more)

    monkeypatch.setattr(AsyncApp, "event", noted)
    async with open_house("http", database, owner):
        pass
    subscribed = set(manifest.read()["settings"]["event_subscriptions"]["bot_events"])
    assert {name.partition(".")[0] for name in subscribed} == heard - set(NOT_SUBSCRIBED)
    assert not subscribed & set(NOT_SUBSCRIBED)

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from slack_bolt.async_app import AsyncApp

from agent.database.pools import Database
from signoff.values import Person
from slackbot.slack.listeners.events import NOT_SUBSCRIBED
from slackbot.slack_api import manifest
from tests.integration.asking import TEAM
from tests.integration.listeners.conftest import House, open_house


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


async def test_reviewers_are_counted_again_where_there_may_be_fewer(http_house: House) -> None:
    """Who leaves, is deactivated or becomes a guest, and a changed group, have reviewers counted; a new member and a
    change of somebody's profile do not, though they are looked up again.
    """
    house, counted = http_house, list[str]()
    object.__setattr__(house.ctx, "reviewers_changed", counted.append)
    slack, grace = house.slack.workspace, Person(TEAM, "U0GRACE")
    assert (await house.ctx.directory.identify(grace)).refusal is None
    slack.join("C0REVIEW", "U0ADA")
    slack.change_member("U0GRACE", real_name="Grace Murray Hopper")
    await house.slack.wait_for(lambda: house.ctx.directory._accounts.kept("U0GRACE") is None)
    slack.leave("C0REVIEW", "U0ADA")
    slack.change_member("U0GRACE", is_restricted=True)
    slack.change_member("U0LINUS", deleted=True)
    slack.change_usergroup("S0FINANCE", [])
    await house.slack.wait_for(lambda: len(counted) >= 4)
    assert sorted(counted) == ["C0REVIEW", "S0FINANCE", "U0GRACE", "U0LINUS"]

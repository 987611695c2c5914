from __future__ import annotations

from typing import Any

from slack_bolt.async_app import AsyncApp

from signoff.values import Person
from slackbot.slack.listeners.context import ListenerContext


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """`app_home_opened` also comes for the Messages tab, which Signoff does not use."""

    @app.event("app_home_opened")
    async def opened(event: dict[str, Any], body: dict[str, Any]) -> None:
        if event.get("tab") == "home":
            team_id = str(event.get("user_team") or body.get("team_id") or ctx.directory.own_team_id)
            member = await ctx.directory.member(Person(team_id, event["user"]))
            ctx.homes.show(member.person)

"""Events other than messages: an opened App Home, and what changes in Slack's directory of people and places."""

from __future__ import annotations

from typing import Any

from slack_bolt.async_app import AsyncApp

from signoff.values import Person
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack_api.directory import DIRECTORY

_OF_GROUPS = ("subteam_members_changed", "subteam_updated")
_OF_CHANNELS = (
    "member_joined_channel",
    "channel_archive",
    "channel_unarchive",
    "channel_shared",
    "channel_unshared",
    "group_archive",
    "group_unarchive",
)
NOT_SUBSCRIBED = {
    "user_change": "comes for each change of any profile in the workspace; accounts are asked about at each vote, and "
    "an answer is kept for a minute at most. Subscribe to it to hear of a deactivated account at once",
}
"""Events with a listener that the manifest leaves out, and why."""


_NO_REVIEWER = ("deleted", "is_restricted", "is_ultra_restricted")


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """Register the events of opened App Homes, and those of people, groups and channels that change."""

    @app.event("app_home_opened")
    async def opened(event: dict[str, Any], body: dict[str, Any]) -> None:
        """Also of the Messages tab, which Signoff does not use."""
        if event.get("tab") == "home":
            team_id = str(event.get("user_team") or body.get("team_id") or ctx.directory.own_team_id)
            member = await ctx.directory.member(Person(team_id, event["user"]))
            ctx.homes.show(member.person)

    _register_directory(app, ctx)


def _register_directory(app: AsyncApp, ctx: ListenerContext) -> None:
    """Count reviewers again where there may be fewer."""

    async def forget(slack_id: str) -> None:
        """Forget it in every process. A failure is raised, so that Slack sends the event again."""
        ctx.directory.forget(slack_id)
        await ctx.db.announce(DIRECTORY, slack_id)

    async def group(event: dict[str, Any]) -> None:
        group_id = event.get("subteam_id") or event["subteam"]["id"]
        await forget(group_id)
        ctx.reviewers_changed(group_id)

    async def channel(event: dict[str, Any]) -> None:
        await forget(event["channel"])

    async def person(event: dict[str, Any]) -> None:
        """Of each change of a profile: only some take a reviewer away."""
        await forget(event["user"]["id"])
        if any(event["user"].get(flag) for flag in _NO_REVIEWER):
            ctx.reviewers_changed(event["user"]["id"])

    for names, listener in ((_OF_GROUPS, group), (_OF_CHANNELS, channel), (("user_change",), person)):
        for name in names:
            app.event(name)(listener)

    @app.event("member_left_channel")
    async def left(event: dict[str, Any]) -> None:
        await forget(event["channel"])
        ctx.reviewers_changed(event["channel"])

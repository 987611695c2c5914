from __future__ import annotations

from typing import Any

from slack_bolt.async_app import AsyncApp

from slackbot.slack.listeners.context import ListenerContext

_OF_GROUPS = ("subteam_members_changed", "subteam_updated")
_OF_CHANNELS = (
    "member_joined_channel",
    "member_left_channel",
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


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    directory = ctx.directory

    async def group(event: dict[str, Any]) -> None:
        directory.forget_group(event.get("subteam_id") or event["subteam"]["id"])

    async def channel(event: dict[str, Any]) -> None:
        directory.forget_channel(event["channel"])

    async def person(event: dict[str, Any]) -> None:
        directory.forget_person(event["user"]["id"])

    for name in _OF_GROUPS:
        app.event(name)(group)
    for name in _OF_CHANNELS:
        app.event(name)(channel)
    app.event("user_change")(person)

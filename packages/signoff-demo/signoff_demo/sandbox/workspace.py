"""A workspace: its members, channels and the installed app."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from signoff_demo.sandbox.changes import Changes
from signoff_demo.sandbox.manifest import manifest_scopes
from signoff_demo.sandbox.messages import Messages, Timestamps
from signoff_demo.sandbox.modals import Modals
from signoff_demo.sandbox.mrkdwn import typed
from signoff_demo.sandbox.people_and_places import Bot, Channel, Member, Team, UserGroup
from signoff_demo.sandbox.refusal import Json, SandboxRefusal


class SandboxWorkspace:
    """A workspace with one app installed, which has its manifest's scopes unless others are given. Builder methods
    return the workspace for chaining.
    """

    def __init__(
        self,
        team_id: str = "T0SANDBOX",
        name: str = "Sandbox",
        bot_name: str = "signoff",
        scopes: Iterable[str] | None = None,
    ) -> None:
        self.team = Team(team_id, name, name.lower())
        self.bot = Bot(
            "A0SIGNOFF", "U0BOT", "B0BOT", bot_name, tuple(manifest_scopes() if scopes is None else scopes)
        )
        self.members: dict[str, Member] = {}
        self.usergroups: dict[str, UserGroup] = {}
        self.channels: dict[str, Channel] = {}
        self.files: dict[str, Json] = {}
        self.timestamps = Timestamps()
        self.messages = Messages(self.timestamps)
        self.modals = Modals(team_id, self.bot.app_id, self.bot.bot_id)
        self.changes = Changes()
        self.on_event: Callable[[Json], None] = lambda _event: None
        self.apps: list[Callable[[Json], None]] = []
        """Where events go besides: one entry for each sandbox with this workspace, whose app they tell."""
        self.command_owners: dict[str, Any] = {}
        """The `SandboxParts` of the app that has each command: the one installed last, as in Slack."""
        self._numbers = itertools.count(1)
        self.add_member(
            self.bot.user_id,
            bot_name,
            bot_name.title(),
            is_bot=True,
            bot_id=self.bot.bot_id,
            app_id=self.bot.app_id,
        )

    # -- builder ---------------------------------------------------------------------------------

    def add_member(self, user_id: str, name: str, real_name: str = "", **traits: object) -> SandboxWorkspace:
        """`traits` are the other fields of Member (`tz`, `is_restricted`, `team_id`, …)."""
        traits.setdefault("team_id", self.team.id)
        traits.setdefault("email", f"{name}@example.com")
        self.members[user_id] = Member(user_id, name, real_name or name.title(), **traits)  # type: ignore[arg-type]
        return self

    def add_channel(
        self, channel_id: str, name: str, members: Iterable[str], **traits: bool
    ) -> SandboxWorkspace:
        """The bot is a member only if listed."""
        self.channels[channel_id] = Channel(channel_id, name, set(members), **traits)
        return self

    def add_usergroup(
        self, group_id: str, handle: str, users: Iterable[str], name: str = ""
    ) -> SandboxWorkspace:
        self.usergroups[group_id] = UserGroup(group_id, handle, name or handle.title(), list(users))
        return self

    # -- administration, by people of the workspace -----------------------------------------------

    def change_member(self, user_id: str, **traits: object) -> None:
        """Deactivate a person or make them a guest, for example; sends `user_change`."""
        self.members[user_id] = replace(self.members[user_id], **traits)  # type: ignore[arg-type]
        self.emit({"type": "user_change", "user": self.members[user_id].as_slack(), "cache_ts": 0})

    def change_usergroup(self, group_id: str, users: Iterable[str]) -> None:
        """Sends `subteam_members_changed`."""
        group = self.usergroups[group_id]
        before, group.users = list(group.users), list(users)
        added = [user for user in group.users if user not in before]
        removed = [user for user in before if user not in group.users]
        self.emit(
            {
                "type": "subteam_members_changed",
                "subteam_id": group_id,
                "team_id": self.team.id,
                "date_previous_update": 1760000000,
                "date_update": 1760000001,
                "added_users": added,
                "added_users_count": len(added),
                "removed_users": removed,
                "removed_users_count": len(removed),
            }
        )

    def archive(self, channel_id: str, by: str) -> None:
        """Sends `channel_archive` if the app is a member."""
        channel = self.channels[channel_id]
        channel.is_archived = True
        if self.bot.user_id in channel.members:
            self.emit({"type": "channel_archive", "channel": channel_id, "user": by, "is_moved": 0})

    def join(self, channel_id: str, user_id: str, inviter: str | None = None) -> None:
        """Sends `member_joined_channel` if the app is a member."""
        channel = self.channels[channel_id]
        channel.members.add(user_id)
        if self.bot.user_id in channel.members:
            event: Json = {
                "type": "member_joined_channel",
                "user": user_id,
                "channel": channel_id,
                "channel_type": "C",
                "team": self.team.id,
            }
            self.emit(event | ({"inviter": inviter} if inviter else {}))

    def leave(self, channel_id: str, user_id: str) -> None:
        """Sends `member_left_channel`."""
        self.channels[channel_id].members.discard(user_id)
        self.emit(
            {
                "type": "member_left_channel",
                "user": user_id,
                "channel": channel_id,
                "channel_type": "C",
                "team": self.team.id,
            }
        )

    # -- look-ups ----------------------------------------------------------------------------------

    def channel(self, channel_id: str) -> Channel:
        """Raises SandboxRefusal `channel_not_found` unless the bot can see it."""
        channel = self.channels.get(channel_id)
        hidden = channel is not None and (channel.is_private or channel.is_im)
        if channel is None or (hidden and self.bot.user_id not in channel.members):
            raise SandboxRefusal("channel_not_found")
        return channel

    def member(self, user_id: str) -> Member:
        """Raises SandboxRefusal `user_not_found`."""
        member = self.members.get(user_id)
        if member is None:
            raise SandboxRefusal("user_not_found")
        return member

    def direct_channel(self, user_id: str) -> Channel:
        """Created on first use."""
        self.member(user_id)
        for channel in self.channels.values():
            if channel.is_im and channel.members == {user_id, self.bot.user_id}:
                return channel
        channel = Channel(f"D{next(self._numbers):010d}", "", {user_id, self.bot.user_id}, is_im=True)
        self.channels[channel.id] = channel
        return channel

    def as_typed(self, text: str) -> str:
        """Complete @names and #names as in Slack's client."""
        names: Json = {"@here": "<!here>", "@channel": "<!channel>", "@everyone": "<!everyone>"}
        for member in self.members.values():
            names |= {f"<@{member.id}>": f"<@{member.id}>", f"@{member.name}": f"<@{member.id}>"}
        for group in self.usergroups.values():
            names[f"@{group.handle}"] = f"<!subteam^{group.id}>"
        for channel in self.channels.values():
            if channel.name:
                names[f"#{channel.name}"] = f"<#{channel.id}|{channel.name}>"
        return typed(text, names)

    def next_id(self, prefix: str) -> str:
        """An id such as `F0000000007`."""
        return f"{prefix}{next(self._numbers):010d}"

    # -- what happens to messages --------------------------------------------------------------------

    def post(self, channel: Channel, message: Json, thread_ts: str | None = None) -> Json:
        """Notifies pages and the app."""
        stored = self.messages.add(
            channel.id, {"type": "message", "team": self.team.id, **message}, thread_ts
        )
        change = {
            "type": "message",
            "channel": channel.id,
            "ts": stored["ts"],
            "thread_ts": stored.get("thread_ts"),
        }
        self.changes.publish(change)
        self._tell_app(channel, {key: stored[key] for key in stored if key != "metadata"}, stored["ts"])
        return stored

    def edit(self, channel: Channel, ts: str, changes: Json, remove: Iterable[str] = ()) -> Json:
        """Notifies pages and the app."""
        before = self.messages.get(channel.id, ts)
        after = self.messages.change(channel.id, ts, changes, remove)
        self.changes.publish(
            {"type": "update", "channel": channel.id, "ts": ts, "thread_ts": after.get("thread_ts")}
        )
        event = {
            "type": "message",
            "subtype": "message_changed",
            "message": after,
            "previous_message": before,
        }
        self._tell_app(channel, event | {"hidden": True}, self.timestamps.next())
        return after

    def delete(self, channel: Channel, ts: str) -> None:
        """Notifies pages and the app."""
        before = self.messages.delete(channel.id, ts)
        self.changes.publish(
            {"type": "delete", "channel": channel.id, "ts": ts, "thread_ts": before.get("thread_ts")}
        )
        event: Json = {"type": "message", "previous_message": before, "hidden": True}
        if (tombstone := self.messages.find(channel.id, ts)) is not None:  # its thread stays
            event |= {"subtype": "message_changed", "message": tombstone}
        else:
            event |= {"subtype": "message_deleted", "deleted_ts": ts}
        self._tell_app(channel, event, self.timestamps.next())

    def post_ephemeral(self, channel: Channel, user: str, message: Json) -> Json:
        """Notifies the pages only."""
        shown = self.messages.post_ephemeral(
            channel.id, user, {"type": "message", "team": self.team.id, **message}
        )
        self.changes.publish({"type": "ephemeral", "channel": channel.id, "user": user, "ts": shown["ts"]})
        return shown

    def emit(self, event: Json) -> None:
        sent = {**event, "event_ts": event.get("event_ts") or self.timestamps.next()}
        for tell in (self.on_event, *self.apps):
            tell(sent)

    def _tell_app(self, channel: Channel, event: Json, event_ts: str) -> None:
        if self.bot.user_id not in channel.members:
            return
        about = {"channel": channel.id, "channel_type": channel.event_kind, "event_ts": event_ts}
        event.setdefault("ts", event_ts)
        self.emit({**event, **about})
        mention = f"<@{self.bot.user_id}>" in str(event.get("text", ""))
        if mention and not channel.is_im and "subtype" not in event and "bot_id" not in event:
            said = {key: event[key] for key in event if key != "channel_type"}
            self.emit({**said, "type": "app_mention", "channel": channel.id, "event_ts": event_ts})


def demo_workspace() -> SandboxWorkspace:
    """A requester, two reviewers, a guest, a deactivated member, and an external one."""
    people = ["U0ADA", "U0GRACE", "U0LINUS", "U0MALLORY"]
    workspace = SandboxWorkspace()
    bot = workspace.bot.user_id
    return (
        workspace.add_member("U0ADA", "ada", "Ada Lovelace", tz="Europe/London", is_admin=True)
        .add_member("U0GRACE", "grace", "Grace Hopper", tz="America/New_York")
        .add_member("U0LINUS", "linus", "Linus Pauling", tz="America/Los_Angeles")
        .add_member("U0MALLORY", "mallory", "Mallory Guest", tz="Asia/Kolkata", is_restricted=True)
        .add_member("U0GONE", "gone", "Gone Former", tz="Europe/Berlin", deleted=True)
        .add_member("U0EVE", "eve", "Eve Outside", tz="Asia/Tokyo", team_id="T0ELSEWHERE", is_stranger=True)
        .add_channel("C0GENERAL", "general", [*people, bot])
        .add_channel("C0AGENTS", "agents", [*people, bot])
        .add_channel("C0REVIEW", "refund-reviews", [*people, bot])
        .add_usergroup("S0FINANCE", "finance", ["U0GRACE", "U0LINUS"], "Finance")
        .add_usergroup("S0REVIEWERS", "reviewers", ["U0GRACE", "U0LINUS"], "Reviewers")
    )

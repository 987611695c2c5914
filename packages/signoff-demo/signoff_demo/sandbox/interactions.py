"""Interaction payloads, complete as Slack sends them."""

from __future__ import annotations

from dataclasses import dataclass

from signoff_demo.sandbox.elements import FoundElement
from signoff_demo.sandbox.people_and_places import Channel, Member
from signoff_demo.sandbox.refusal import Json
from signoff_demo.sandbox.workspace import SandboxWorkspace


@dataclass(frozen=True)
class ButtonPress:
    """`surface` has `channel`, `message` and `response_url`, or `view`; `posts` collects what the app posts to that
    URL.
    """

    found: FoundElement
    action: Json
    container: Json
    surface: Json
    state: Json
    posts: list[Json]


class Interactions:
    """A maker of the payloads that members' presses, shortcuts, forms and commands send to the app."""

    def __init__(self, workspace: SandboxWorkspace) -> None:
        self._workspace = workspace

    def press(self, member: Member, press: ButtonPress) -> Json:
        view = press.surface.get("view")
        channel = press.surface.get("channel", {}).get("id")
        payload: Json = {
            "type": "block_actions",
            **self._who(member),
            "container": press.container,
            "trigger_id": self._workspace.modals.new_trigger(
                member.id, channel, view["id"] if view else None
            ),
            **self._where(),
            **press.surface,
            "actions": [press.action],
        }
        if view is None:
            payload["state"] = {"values": press.state}
        return payload

    def message_shortcut(
        self, member: Member, callback_id: str, channel: Channel, message: Json, url: str
    ) -> Json:
        """`message_action`: an entry of a message's menu."""
        return {
            "type": "message_action",
            **self._who(member),
            **self._where(),
            "action_ts": self._workspace.timestamps.next(),
            "callback_id": callback_id,
            "trigger_id": self._workspace.modals.new_trigger(member.id, channel.id),
            "response_url": url,
            "message_ts": message["ts"],
            "channel": self.channel(channel),
            "message": message,
        }

    def global_shortcut(self, member: Member, callback_id: str) -> Json:
        return {
            "type": "shortcut",
            **self._who(member),
            **self._where(),
            "action_ts": self._workspace.timestamps.next(),
            "callback_id": callback_id,
            "trigger_id": self._workspace.modals.new_trigger(member.id),
        }

    def submission(self, member: Member, view: Json, response_urls: list[Json]) -> Json:
        return {
            "type": "view_submission",
            **self._who(member),
            **self._where(),
            "trigger_id": self._workspace.modals.new_trigger(member.id, None, view["id"]),
            "view": view,
            "response_urls": response_urls,
        }

    def closing(self, member: Member, view: Json, cleared: bool) -> Json:
        return {
            "type": "view_closed",
            **self._who(member),
            **self._where(),
            "view": view,
            "is_cleared": cleared,
        }

    def command(self, member: Member, channel: Channel, command: str, text: str, url: str) -> Json:
        team = self._workspace.team
        return {
            "token": "sandbox-verification",
            "team_id": team.id,
            "team_domain": team.domain,
            "channel_id": channel.id,
            "channel_name": "directmessage" if channel.is_im else channel.name,
            "user_id": member.id,
            "user_name": member.name,
            "command": command,
            "text": text,
            "api_app_id": self._workspace.bot.app_id,
            "is_enterprise_install": "false",
            "response_url": url,
            "trigger_id": self._workspace.modals.new_trigger(member.id, channel.id),
        }

    @staticmethod
    def channel(channel: Channel) -> Json:
        name = "directmessage" if channel.is_im else "privategroup" if channel.is_private else channel.name
        return {"id": channel.id, "name": name}

    def _who(self, member: Member) -> Json:
        # A member of another organisation keeps that team's id; `team` is always the app's.
        user = {"id": member.id, "username": member.name, "name": member.name, "team_id": member.team_id}
        return {"user": user, "api_app_id": self._workspace.bot.app_id, "token": "sandbox-verification"}

    def _where(self) -> Json:
        team = self._workspace.team
        return {
            "team": {"id": team.id, "domain": team.domain},
            "enterprise": None,
            "is_enterprise_install": False,
        }

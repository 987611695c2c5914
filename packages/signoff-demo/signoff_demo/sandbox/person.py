"""A simulated member.

Refuses what Slack's client does not allow: pressing what is not shown (NotOnScreen), submitting a form with an empty
required field, a slash command in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from signoff_demo.sandbox import elements
from signoff_demo.sandbox.delivery_report import DeliveryReport
from signoff_demo.sandbox.elements import NotFilledIn, NotOnScreen
from signoff_demo.sandbox.manifest import manifest_shortcuts
from signoff_demo.sandbox.parts import SandboxParts
from signoff_demo.sandbox.people_and_places import Member
from signoff_demo.sandbox.refusal import Json, SandboxRefusal
from signoff_demo.sandbox.screens import Gesture, Screens
from signoff_demo.sandbox.signed_http import SignedRequest
from signoff_demo.sandbox.submissions import Submissions

_TROUBLE = "We had some trouble connecting. Try again?"


@dataclass
class InteractionResult:
    """`error` is what Slack shows (None on success), `response` the app's response with its acknowledgement; `posts`
    grows as the app uses the response_url.
    """

    acked: bool
    status: int | None
    elapsed: float
    error: str | None
    response: Any = None
    posts: list[Json] = field(default_factory=list)
    _stage: SandboxParts | None = field(default=None, repr=False)
    _user: str = field(default="", repr=False)
    _since: str = field(default="", repr=False)

    @property
    def errors(self) -> dict[str, str]:
        """By block_id."""
        found = self.response.get("errors") if isinstance(self.response, dict) else None
        return dict(found or {})

    @property
    def ephemeral(self) -> list[Json]:
        """Ephemeral messages shown to this person since the action."""
        if self._stage is None:
            return []
        shown = self._stage.workspace.messages.ephemeral_messages(self._user)
        return [each for each in shown if each["ts"] > self._since]


class ScreenUser:
    """A member in front of Slack's client, who can press and fill in only what is on the screen."""

    def __init__(self, stage: SandboxParts, user_id: str) -> None:
        self._stage = stage
        self._workspace = stage.workspace
        self._screens = Screens(stage.workspace, stage.response_urls)
        self.id = user_id

    @property
    def member(self) -> Member:
        return self._workspace.members[self.id]

    def say(self, channel: str, text: str, thread_ts: str | None = None) -> Json:
        """Complete @names and #names. Returns the stored message."""
        place = self._workspace.channels[channel]
        if place.is_archived:
            raise SandboxRefusal("is_archived")
        if self.id not in place.members:
            raise SandboxRefusal("not_in_channel")
        message: Json = {"user": self.id, "text": self._workspace.as_typed(text), "team": self.member.team_id}
        message["client_msg_id"] = self._workspace.next_id("M")
        return self._workspace.post(place, message, thread_ts)

    def mention(self, channel: str, text: str, thread_ts: str | None = None) -> Json:
        """Post a message that begins with a mention of the app."""
        return self.say(channel, f"<@{self._workspace.bot.user_id}> {text}", thread_ts)

    def direct(self, text: str) -> Json:
        """Post in the app's Messages tab."""
        return self.say(self._workspace.direct_channel(self.id).id, text)

    def open_home(self, tab: str = "home") -> None:
        """Sends `app_home_opened`."""
        view = self._workspace.modals.home(self.id)
        event: Json = {
            "type": "app_home_opened",
            "user": self.id,
            "channel": self._workspace.direct_channel(self.id).id,
            "tab": tab,
        }
        self._workspace.emit(event | ({"view": view} if view and tab == "home" else {}))

    async def command(
        self, command: str, text: str, channel: str, thread_ts: str | None = None
    ) -> InteractionResult:
        """Refused in a thread, as in Slack."""
        if thread_ts is not None:
            return self._refused(f"{command} is not supported in threads. Sorry!")
        app: SandboxParts | None = self._workspace.command_owners.get(command)
        if app is None:
            return self._refused(f"{command} is not a valid command.")
        place = self._workspace.channels[channel]
        since = self._workspace.timestamps.next()
        url, link = app.response_urls.new("commands", self.id, place)
        form = app.interactions.command(self.member, place, command, self._escaped(text), url)
        report = await app.deliveries.command(form)
        answer = self._answer(report, since, link.posts)
        if report.acked and report.payload:
            body = report.payload if isinstance(report.payload, dict) else {"text": str(report.payload)}
            try:
                app.response_urls.respond(link, body)
                link.uses -= 1
            except SandboxRefusal as error:
                answer.error = f'{command} failed with the error "{error.code}"'
        return answer

    async def click(
        self, place: Any, action_id: str | None = None, *, confirm: bool = True, **gesture: Any
    ) -> InteractionResult:
        """Press a button or choose from a menu.

        `place` is a message (as `slack.messages()` returns it, or `(channel, ts)`), a view, or "home"; `gesture` are
        the other fields of Gesture. With `confirm=False` the person cancels the confirm dialog. Raises NotOnScreen.
        """
        press = self._screens.press(self.id, place, Gesture(action_id, **gesture))
        if press.found.element.get("confirm") and not confirm:
            return self._refused("cancelled by the person")
        since = self._workspace.timestamps.next()
        payload = self._stage.interactions.press(self.member, press)
        return self._answer(await self._stage.deliveries.interactive(payload), since, press.posts)

    def click_payload(self, place: Any, action_id: str | None = None, **gesture: Any) -> Json:
        """For `slack.deliveries.interactive`, any number of times."""
        press = self._screens.press(self.id, place, Gesture(action_id, **gesture))
        return self._stage.interactions.press(self.member, press)

    def signed_click(self, place: Any, action_id: str | None = None, **gesture: Any) -> SignedRequest:
        """For replays and tampering with `slack.send`."""
        return self._stage.http.interactive(self.click_payload(place, action_id, **gesture))

    async def shortcut(self, callback_id: str, message: Any = None) -> InteractionResult:
        """Choose a message shortcut, or a global one without a message; in a thread, too."""
        kind = "global" if message is None else "message"
        known = [each["callback_id"] for each in manifest_shortcuts() if each["type"] == kind]
        if callback_id not in known:
            return self._refused(f"{callback_id} is no {kind} shortcut of the app.")
        since = self._workspace.timestamps.next()
        if message is None:
            payload, posts = self._stage.interactions.global_shortcut(self.member, callback_id), []
        else:
            channel, ts = self._screens.message_place(message)
            place = self._workspace.channels[channel]
            url, link = self._stage.response_urls.new("app", self.id, place, message_ts=ts)
            stored = self._workspace.messages.get(channel, ts)
            payload = self._stage.interactions.message_shortcut(self.member, callback_id, place, stored, url)
            posts = link.posts
        return self._answer(await self._stage.deliveries.interactive(payload), since, posts)

    async def submit(
        self, view: Any, values: Mapping[str, Any] | None = None, *, drawn: str | None = None
    ) -> InteractionResult:
        """Fill in an open modal and submit it.

        `values` maps "block_id/action_id" (or "action_id") to a value, or a block_id to Slack state objects. An empty
        required field returns `errors`, and nothing is sent. `drawn`: the hash of the version on the person's screen,
        which may have been updated since; fields that it does not have are left out.
        """
        submissions = Submissions(self._stage)
        standing, given = self._screens.view(self.id, view, drawn), values or {}
        entered = self._screens.entered(standing, self._screens.known(standing, given) if drawn else given)
        for block_id, actions in entered.items():
            standing["state"]["values"].setdefault(block_id, {}).update(actions)
        now = self._screens.view(self.id, view)
        self._workspace.modals.enter(self.id, now["id"], self._screens.known(now, entered))
        try:
            elements.check_filled_in(standing["blocks"], standing["state"]["values"])
        except NotFilledIn as missing:
            response = {"response_action": "errors", "errors": missing.errors}
            return InteractionResult(False, None, 0.0, "the form is not filled in", response)
        since = self._workspace.timestamps.next()
        report, posts = await submissions.send(self.member, standing)
        answer = self._answer(report, since, posts)
        if report.error is not None:
            answer.error = f"{_TROUBLE} ({report.error})"
        else:
            answer.error = submissions.apply(self.id, standing, report.payload)
        return answer

    async def close(self, view: Any, clear: bool = False) -> InteractionResult:
        """Use the Cancel button, or close the whole stack (`clear`, the close icon)."""
        standing = self._screens.view(self.id, view)
        stack = self._workspace.modals.stack(self.id)
        cleared = clear or standing["clear_on_close"]
        gone = stack if cleared else stack[[each["id"] for each in stack].index(standing["id"]) :]
        self._workspace.modals.close(self.id, gone[0]["id"])
        self._workspace.changes.publish({"type": "view", "user": self.id, "view_id": standing["id"]})
        since = self._workspace.timestamps.next()
        answer = InteractionResult(True, None, 0.0, None)
        for each in reversed(gone):
            if each["notify_on_close"]:
                payload = self._stage.interactions.closing(self.member, each, cleared)
                answer = self._answer(await self._stage.deliveries.interactive(payload), since, [])
        return answer

    def _escaped(self, text: str) -> str:
        """With `should_escape`, mentions in a command include the name."""
        if not self._stage.should_escape:
            return text
        escaped = self._workspace.as_typed(text)
        for member in self._workspace.members.values():
            escaped = escaped.replace(f"<@{member.id}>", f"<@{member.id}|{member.name}>")
        for group in self._workspace.usergroups.values():
            escaped = escaped.replace(f"<!subteam^{group.id}>", f"<!subteam^{group.id}|@{group.handle}>")
        return escaped

    def _answer(self, report: DeliveryReport, since: str, posts: list[Json]) -> InteractionResult:
        return InteractionResult(
            report.acked,
            report.status,
            report.elapsed,
            report.error,
            report.payload,
            posts,
            self._stage,
            self.id,
            since,
        )

    @staticmethod
    def _refused(error: str) -> InteractionResult:
        return InteractionResult(False, None, 0.0, error)


__all__ = ["InteractionResult", "NotOnScreen", "ScreenUser"]

"""What a member sees, and what a press does."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from signoff_demo.sandbox import elements
from signoff_demo.sandbox.elements import FoundElement, NotOnScreen
from signoff_demo.sandbox.interactions import ButtonPress, Interactions
from signoff_demo.sandbox.refusal import Json
from signoff_demo.sandbox.response_urls import ResponseUrls
from signoff_demo.sandbox.workspace import SandboxWorkspace


@dataclass(frozen=True)
class Gesture:
    """An element to press, by ids or `label`, and its input. `value` is an option's value or the selection, `state`
    other input on the surface. A `stale` gesture presses what the person's screen still shows although Slack has
    replaced it: the given message or view, or else its newest version that has the element.
    """

    action_id: str | None = None
    block_id: str | None = None
    label: str | None = None
    value: Any = None
    state: Mapping[str, Any] | None = None
    stale: bool = False

    def element(self, blocks: list[Json]) -> FoundElement:
        """Raises NotOnScreen."""
        return elements.find(blocks, self.action_id, self.block_id, self.label)

    def drawn(self, versions: list[Json]) -> Json:
        """The newest version that has the element as it was pressed. Raises NotOnScreen for the newest."""
        for version in versions:
            try:
                found = self.element(version.get("blocks", []))
                if found.element["type"] == "button" and self.value not in (None, found.element.get("value")):
                    continue
                if found.element["type"] == "overflow":
                    elements.option(found.element, self.value)
            except NotOnScreen:
                continue
            return version
        self.element(versions[0].get("blocks", []))
        return versions[0]


class Screens:
    """A view of what each member has on the screen, which turns presses into what Slack would report."""

    def __init__(self, workspace: SandboxWorkspace, response_urls: ResponseUrls) -> None:
        self._workspace = workspace
        self._response_urls = response_urls

    def press(self, user: str, place: Any, gesture: Gesture) -> ButtonPress:
        """Raises NotOnScreen."""
        if place == "home" or (isinstance(place, str | dict) and _is_view(place)):
            return self._press_on_view(user, self._drawn_view(user, place, gesture), gesture)
        return self._press_on_message(user, self._drawn_message(user, place, gesture), gesture)

    def view(self, user: str, place: Any, drawn: str | None = None) -> Json:
        """`place` is a view, its id, or "home"; `drawn` the hash of the version on the person's screen."""
        if place == "home":
            view = self._workspace.modals.home(user)
        else:
            view = self._workspace.modals.find(user, place if isinstance(place, str) else place["id"])
        if view is None:
            gone = "This app has no Home for you yet." if place == "home" else "This form has been closed."
            raise NotOnScreen(f"{user} does not see this view", gone)
        versions = [view, *self._workspace.modals.earlier(view["id"])]
        return next((each for each in versions if each["hash"] == drawn), view)

    def _drawn_view(self, user: str, place: Any, gesture: Gesture) -> Json:
        if gesture.stale and isinstance(place, dict):
            return dict(place)
        view = self.view(user, place)
        if not gesture.stale:
            return view
        return gesture.drawn([view, *self._workspace.modals.earlier(view["id"])])

    def known(self, view: Json, values: Mapping[str, Any]) -> Json:
        """Those of the values, by block and action, that the view has inputs for; a screen may remember others."""
        there = {(found.block_id, found.action_id) for found in elements.walk(view["blocks"])}
        return {
            block_id: kept
            for block_id, actions in values.items()
            if isinstance(actions, Mapping)
            and (kept := {name: given for name, given in actions.items() if (block_id, name) in there})
        }

    def entered(self, view: Json, values: Mapping[str, Any]) -> Json:
        """Plain values are converted for their element's type."""
        state: Json = {}
        for name, value in values.items():
            for found, given in self._named(view["blocks"], name, value):
                state.setdefault(found.block_id, {})[found.action_id] = elements.entered_state(found, given)
        return state

    @staticmethod
    def _named(blocks: list[Json], name: str, value: Any) -> list[tuple[FoundElement, Any]]:
        """Elements for "block_id/action_id", an action_id, or a block_id with its actions."""
        everything = list(elements.walk(blocks))
        if isinstance(value, Mapping) and any(found.block_id == name for found in everything):
            return [(elements.find(blocks, action_id, name), given) for action_id, given in value.items()]
        named = [
            found for found in everything if name in (f"{found.block_id}/{found.action_id}", found.action_id)
        ]
        if len(named) != 1:
            raise NotOnScreen(f"{len(named)} fields are called {name}", "This form has changed.")
        return [(named[0], value)]

    def message_place(self, place: Any) -> tuple[str, str]:
        if isinstance(place, tuple):
            return place
        return place["channel"], place["ts"]

    def _drawn_message(self, user: str, place: Any, gesture: Gesture) -> Json:
        if gesture.stale and isinstance(place, dict):
            return dict(place)
        message = self._message(user, place)
        if not gesture.stale:
            return message
        earlier = self._workspace.messages.earlier(message["channel"], message["ts"])
        return message | {"blocks": gesture.drawn([message, *earlier]).get("blocks", [])}

    def _message(self, user: str, place: Any) -> Json:
        channel, ts = self.message_place(place)
        message = self._workspace.messages.find(channel, ts)
        if message is None:
            ephemeral_messages = self._workspace.messages.ephemeral_messages(user, channel)
            message = next((each for each in ephemeral_messages if each["ts"] == ts), None)
        if message is None or message.get("subtype") == "tombstone":
            raise NotOnScreen(
                f"{user} does not see message {ts} in {channel}", "This message has been deleted."
            )
        return message | {"channel": channel}

    def _press_on_message(self, user: str, shown: Json, gesture: Gesture) -> ButtonPress:
        found = gesture.element(shown.get("blocks", []))
        channel, ts = self._workspace.channels[shown["channel"]], shown["ts"]
        is_ephemeral = bool(shown.get("is_ephemeral"))
        thread_ts = shown.get("thread_ts")
        url, link = self._response_urls.new(
            "actions", user, channel, message_ts=ts, thread_ts=thread_ts, ephemeral=is_ephemeral
        )
        container: Json = {
            "type": "message",
            "message_ts": ts,
            "channel_id": channel.id,
            "is_ephemeral": is_ephemeral,
        }
        if thread_ts:
            container["thread_ts"] = thread_ts
        surface: Json = {"channel": Interactions.channel(channel)}
        if not is_ephemeral:
            # Slack knows the message as it is now, whatever the person's screen shows.
            now = self._workspace.messages.find(channel.id, ts) or shown
            surface["message"] = {name: now[name] for name in now if name != "channel"}
        surface["response_url"] = url
        state = elements.initial_state(shown["blocks"])
        self._fill_in(state, shown["blocks"], found, gesture)
        action = elements.press_report(
            found, _own(state, found), gesture.value, self._workspace.timestamps.next()
        )
        return ButtonPress(found, action, container, surface, state, link.posts)

    def _press_on_view(self, user: str, view: Json, gesture: Gesture) -> ButtonPress:
        found = gesture.element(view["blocks"])
        state = copy.deepcopy(view["state"]["values"])
        self._fill_in(state, view["blocks"], found, gesture)
        standing = self._workspace.modals.find(user, view["id"])
        if standing is not None:
            self._workspace.modals.enter(user, view["id"], self.known(standing, state))
        shown = view | {"state": {"values": state}}
        action = elements.press_report(
            found, _own(state, found), gesture.value, self._workspace.timestamps.next()
        )
        return ButtonPress(found, action, {"type": "view", "view_id": view["id"]}, {"view": shown}, state, [])

    def _fill_in(self, state: Json, blocks: list[Json], found: FoundElement, gesture: Gesture) -> None:
        given = gesture.state or {}
        if gesture.stale:
            given = self.known({"blocks": blocks}, given)
        for block_id, actions in self.entered({"blocks": blocks}, given).items():
            state.setdefault(block_id, {}).update(actions)
        if gesture.value is not None and found.element["type"] not in elements.STATELESS:
            own = elements.entered_state(found, gesture.value)
            state.setdefault(found.block_id, {})[found.action_id] = own


def _own(state: Json, found: FoundElement) -> Json | None:
    own: Json | None = state.get(found.block_id, {}).get(found.action_id)
    return own


def _is_view(place: Any) -> bool:
    if isinstance(place, str):
        return place.startswith("V")
    return "ts" not in place and "id" in place

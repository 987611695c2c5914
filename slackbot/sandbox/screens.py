"""What a person sees and where a press lands: messages, modals, App Home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import elements
from .elements import Found, NotOnScreen
from .interactions import Interactions
from .response_urls import ResponseUrls
from .slack_error import Json
from .workspace import Workspace


@dataclass(frozen=True)
class Press:
    """A press on one element: everything that its payload tells of the surface."""

    found: Found
    action: Json
    container: Json
    surface: Json
    state: Json
    posts: list[Json]


class Screens:
    """Finds elements on the surfaces of a workspace, as one of its members sees them."""

    def __init__(self, workspace: Workspace, response_urls: ResponseUrls) -> None:
        self._workspace = workspace
        self._response_urls = response_urls

    def press(
        self,
        user: str,
        place: Any,
        action_id: str | None,
        block_id: str | None,
        label: str | None,
        value: Any,
        state: Mapping[str, Any] | None,
        stale: bool,
    ) -> Press:
        """Locate the element and describe the press; raises NotOnScreen."""
        if place == "home" or (isinstance(place, str | dict) and _is_view(place)):
            shown = dict(place) if stale and isinstance(place, dict) else self.view(user, place)
            found = elements.find(shown["blocks"], action_id, block_id, label)
            return self._press_on_view(user, shown, found, value, state)
        shown = self._message(user, place, stale)
        found = elements.find(shown.get("blocks", []), action_id, block_id, label)
        return self._press_on_message(user, shown, found, value, state)

    def view(self, user: str, place: Any) -> Json:
        """The open view (or Home) that `place` names: a view, its id, or "home"."""
        if place == "home":
            view = self._workspace.modals.home(user)
        else:
            view = self._workspace.modals.find(user, place if isinstance(place, str) else place["id"])
        if view is None:
            raise NotOnScreen(f"{user} does not see this view")
        return view

    def entered(self, view: Json, values: Mapping[str, Any]) -> Json:
        """What a person fills in, as `state.values`; plain values are taken for their element's kind."""
        state: Json = {}
        for name, value in values.items():
            block_id, _, action_id = name.rpartition("/")
            inner = value if isinstance(value, Mapping) and not block_id else None
            if inner is not None and any(found.block_id == name for found in elements.walk(view["blocks"])):
                for each, given in inner.items():
                    found = elements.find(view["blocks"], each, name)
                    state.setdefault(name, {})[each] = elements.entered(found, given)
                continue
            found = elements.find(view["blocks"], action_id or None, block_id or None)
            state.setdefault(found.block_id, {})[found.action_id] = elements.entered(found, value)
        return state

    def message_place(self, place: Any) -> tuple[str, str]:
        """Channel and ts of a message, given either way."""
        if isinstance(place, tuple):
            return place
        return place["channel"], place["ts"]

    def _message(self, user: str, place: Any, stale: bool) -> Json:
        channel, ts = self.message_place(place)
        if stale and isinstance(place, dict):
            return dict(place)
        message = self._workspace.messages.find(channel, ts)
        if message is None:
            whispers = self._workspace.messages.whispers(user, channel)
            message = next((each for each in whispers if each["ts"] == ts), None)
        if message is None:
            raise NotOnScreen(f"{user} does not see message {ts} in {channel}")
        return message | {"channel": channel}

    def _press_on_message(
        self, user: str, shown: Json, found: Found, value: Any, given: Mapping[str, Any] | None
    ) -> Press:
        channel, ts = self._workspace.channels[shown["channel"]], shown["ts"]
        whispered = bool(shown.get("is_ephemeral"))
        thread_ts = shown.get("thread_ts")
        url, link = self._response_urls.new("actions", user, channel, ts, thread_ts, whispered)
        container: Json = {
            "type": "message",
            "message_ts": ts,
            "channel_id": channel.id,
            "is_ephemeral": whispered,
        }
        if thread_ts:
            container["thread_ts"] = thread_ts
        surface: Json = {"channel": Interactions.channel(channel)}
        if not whispered:
            surface["message"] = {name: shown[name] for name in shown if name != "channel"}
        surface["response_url"] = url
        state = self._state(shown["blocks"], found, value, given)
        action = elements.pressed(found, _own(state, found), value, self._workspace.timestamps.next())
        return Press(found, action, container, surface, state, link.posts)

    def _press_on_view(
        self, user: str, view: Json, found: Found, value: Any, given: Mapping[str, Any] | None
    ) -> Press:
        state = self._state(view["blocks"], found, value, given)
        self._workspace.modals.enter(user, view["id"], state if given or value is not None else {})
        standing = self._workspace.modals.find(user, view["id"]) or view
        action = elements.pressed(found, _own(state, found), value, self._workspace.timestamps.next())
        return Press(found, action, {"type": "view", "view_id": view["id"]}, {"view": standing}, state, [])

    def _state(self, blocks: list[Json], found: Found, value: Any, given: Mapping[str, Any] | None) -> Json:
        state = elements.initial_state(blocks)
        for block_id, actions in self.entered({"blocks": blocks}, given or {}).items():
            state.setdefault(block_id, {}).update(actions)
        if value is not None and found.element["type"] not in elements.STATELESS:
            state.setdefault(found.block_id, {})[found.action_id] = elements.entered(found, value)
        return state


def _own(state: Json, found: Found) -> Json | None:
    own: Json | None = state.get(found.block_id, {}).get(found.action_id)
    return own


def _is_view(place: Any) -> bool:
    if isinstance(place, str):
        return place.startswith("V")
    return "ts" not in place and "id" in place

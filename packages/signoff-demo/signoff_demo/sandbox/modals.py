"""Modals, App Homes and trigger ids.

Sources: Slack, "Modals" (a stack of at most three views) and "Handling user interaction" (a trigger id is valid for
three seconds and one use).
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import secrets
import time
from collections import deque
from dataclasses import dataclass

from signoff_demo.sandbox.elements import initial_state
from signoff_demo.sandbox.refusal import Json, SandboxRefusal

STACK_LIMIT = 3
EARLIER = 20
"""Versions of a view that screens may still show."""


@dataclass
class Trigger:
    """A trigger id's origin; it opens one view, until `expires` in seconds of the monotonic clock."""

    user: str
    channel: str | None
    view_id: str | None
    expires: float
    used: bool = False


class Modals:
    """Each person's modal stack and App Home."""

    def __init__(self, team_id: str, app_id: str, bot_id: str, trigger_seconds: float = 3.0) -> None:
        self.trigger_seconds = trigger_seconds
        self._identity = {
            "team_id": team_id,
            "app_id": app_id,
            "app_installed_team_id": team_id,
            "bot_id": bot_id,
        }
        self._triggers: dict[str, Trigger] = {}
        self._stacks: dict[str, list[Json]] = {}
        self._homes: dict[str, Json] = {}
        self._earlier: dict[str, deque[Json]] = {}
        self._numbers = itertools.count(1)

    def new_trigger(self, user: str, channel: str | None = None, view_id: str | None = None) -> str:
        """`view_id`: the modal of the interaction."""
        trigger_id = f"{next(self._numbers)}.{secrets.randbelow(10**10)}.{secrets.token_hex(16)}"
        self._triggers[trigger_id] = Trigger(user, channel, view_id, time.monotonic() + self.trigger_seconds)
        return trigger_id

    def exchange(self, trigger_id: str) -> Trigger:
        """Use up a trigger id. Raises SandboxRefusal as documented for `views.open`."""
        trigger = self._triggers.get(trigger_id)
        if trigger is None:
            raise SandboxRefusal("invalid_trigger_id")
        if trigger.used:
            raise SandboxRefusal("exchanged_trigger_id")
        if time.monotonic() > trigger.expires:
            raise SandboxRefusal("expired_trigger_id")
        trigger.used = True
        return trigger

    def stack(self, user: str) -> list[Json]:
        """Topmost last."""
        return copy.deepcopy(self._stacks.get(user, []))

    def home(self, user: str) -> Json | None:
        return copy.deepcopy(self._homes.get(user))

    def open(self, user: str, view: Json) -> Json:
        """Replaces the whole stack."""
        self._refuse_known_external_id(view)
        opened = self._new(view, previous=None)
        self._stacks[user] = [opened]
        return copy.deepcopy(opened)

    def push(self, user: str, view: Json) -> Json:
        """Raises SandboxRefusal `push_limit_reached` above three."""
        stack = self._stacks.get(user, [])
        if not stack:
            raise SandboxRefusal("invalid_trigger_id")
        if len(stack) >= STACK_LIMIT:
            raise SandboxRefusal("push_limit_reached")
        self._refuse_known_external_id(view)
        pushed = self._new(view, previous=stack[-1])
        stack.append(pushed)
        return copy.deepcopy(pushed)

    def update(
        self, view_id: str | None, external_id: str | None, view: Json, expected_hash: str | None
    ) -> tuple[str, Json]:
        """Replace an open or published view. Raises SandboxRefusal `not_found`, or `hash_conflict` if `expected_hash`
        is outdated.
        """
        user, standing = self._find(view_id, external_id)
        if expected_hash is not None and expected_hash != standing["hash"]:
            raise SandboxRefusal("hash_conflict")
        fresh = self._new(view, previous=None)
        fresh |= {name: standing[name] for name in ("id", "root_view_id", "previous_view_id")}
        self._remember(standing)
        _keep_entered(standing["state"]["values"], fresh["state"]["values"])
        standing.clear()
        standing.update(fresh)
        return user, copy.deepcopy(standing)

    def publish(self, user: str, view: Json, expected_hash: str | None) -> Json:
        """Raises SandboxRefusal `hash_conflict`, as `update` does."""
        standing = self._homes.get(user)
        if expected_hash is not None and (standing is None or expected_hash != standing["hash"]):
            raise SandboxRefusal("hash_conflict")
        home = self._new(view, previous=None)
        if standing is not None:
            self._remember(standing)
            home |= {"id": standing["id"], "root_view_id": standing["id"]}
        self._homes[user] = home
        return copy.deepcopy(home)

    def find(self, user: str, view_id: str) -> Json | None:
        for view in [*self._stacks.get(user, []), *filter(None, [self._homes.get(user)])]:
            if view["id"] == view_id:
                return copy.deepcopy(view)
        return None

    def earlier(self, view_id: str) -> list[Json]:
        """What the view was before its last updates, newest first."""
        return copy.deepcopy(list(self._earlier.get(view_id, ())))

    def _remember(self, standing: Json) -> None:
        versions = self._earlier.setdefault(standing["id"], deque(maxlen=EARLIER))
        versions.appendleft(copy.deepcopy(standing))

    def enter(self, user: str, view_id: str, values: Json) -> None:
        for view in [*self._stacks.get(user, []), *filter(None, [self._homes.get(user)])]:
            if view["id"] == view_id:
                for block_id, actions in values.items():
                    view["state"]["values"].setdefault(block_id, {}).update(copy.deepcopy(actions))

    def close(self, user: str, view_id: str) -> None:
        """Close a view and everything above it."""
        stack = self._stacks.get(user, [])
        for index, view in enumerate(stack):
            if view["id"] == view_id:
                del stack[index:]
                break
        if stack and stack[-1]["previous_view_id"] is None:
            stack[0]["root_view_id"] = stack[0]["id"]

    def clear(self, user: str) -> None:
        self._stacks.pop(user, None)

    def _find(self, view_id: str | None, external_id: str | None) -> tuple[str, Json]:
        everything = [(user, view) for user, stack in self._stacks.items() for view in stack]
        everything += list(self._homes.items())
        for user, view in everything:
            if (view_id and view["id"] == view_id) or (external_id and view["external_id"] == external_id):
                return user, view
        raise SandboxRefusal("not_found")

    def _refuse_known_external_id(self, view: Json) -> None:
        external_id = view.get("external_id")
        if external_id and any(
            external_id == each["external_id"] for stack in self._stacks.values() for each in stack
        ):
            raise SandboxRefusal("duplicate_external_id")

    def _new(self, view: Json, previous: Json | None) -> Json:
        view_id = f"V{next(self._numbers):010d}"
        content = f"{time.time_ns()}{view_id}".encode()
        shown = {
            "id": view_id,
            **self._identity,
            "type": view["type"],
            "blocks": copy.deepcopy(view["blocks"]),
            "private_metadata": view.get("private_metadata") or "",
            "callback_id": view.get("callback_id") or "",
            "external_id": view.get("external_id") or "",
            "state": {"values": initial_state(view["blocks"])},
            "hash": f"{int(time.time())}.{hashlib.sha256(content).hexdigest()[:8]}",
            "clear_on_close": bool(view.get("clear_on_close")),
            "notify_on_close": bool(view.get("notify_on_close")),
            "root_view_id": previous["root_view_id"] if previous else view_id,
            "previous_view_id": previous["id"] if previous else None,
        }
        for name in ("title", "submit", "close"):
            shown[name] = copy.deepcopy(view.get(name))
        return shown


def _keep_entered(entered: Json, fresh: Json) -> None:
    # Slack keeps entered values if an update leaves both block_id and action_id unchanged.
    for block_id, actions in fresh.items():
        for action_id, state in actions.items():
            before = entered.get(block_id, {}).get(action_id)
            if before is not None and before["type"] == state["type"]:
                actions[action_id] = copy.deepcopy(before)

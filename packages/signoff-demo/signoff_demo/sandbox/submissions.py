"""Modal submissions, and the effect of the app's response on the stack of views."""

from __future__ import annotations

from typing import Any

from signoff_demo.sandbox import elements
from signoff_demo.sandbox.delivery_report import DeliveryReport
from signoff_demo.sandbox.methods.views import readable_view
from signoff_demo.sandbox.parts import SandboxParts
from signoff_demo.sandbox.people_and_places import Member
from signoff_demo.sandbox.refusal import Json, SandboxRefusal

_TROUBLE = "We had some trouble connecting. Try again?"


class Submissions:
    """A sender of submitted modals, which then applies the app's response to the stack of views."""

    def __init__(self, stage: SandboxParts) -> None:
        self._stage = stage
        self._modals = stage.workspace.modals

    async def send(self, member: Member, view: Json) -> tuple[DeliveryReport, list[Json]]:
        """Also returns what the app posts to its response_urls."""
        posts: list[Json] = []
        urls = []
        for found in elements.walk(view["blocks"]):
            if found.element.get("response_url_enabled"):
                state = view["state"]["values"][found.block_id][found.action_id]
                chosen = state.get("selected_conversation") or state.get("selected_channel")
                channel = self._stage.workspace.channels.get(chosen)
                if channel is not None:
                    url, link = self._stage.response_urls.new("app", member.id, channel)
                    link.posts = posts
                    urls.append(
                        {
                            "block_id": found.block_id,
                            "action_id": found.action_id,
                            "channel_id": channel.id,
                            "response_url": url,
                        }
                    )
        payload = self._stage.interactions.submission(member, view, urls)
        return await self._stage.deliveries.interactive(payload), posts

    def apply(self, user: str, view: Json, response: Any) -> str | None:
        """Return an error that the person sees."""
        try:
            return self._apply(user, view, response)
        except SandboxRefusal as error:
            return f"{_TROUBLE} ({error.code}: {'; '.join(error.messages)})"
        finally:
            self._stage.workspace.changes.publish({"type": "view", "user": user, "view_id": view["id"]})

    def _apply(self, user: str, view: Json, response: Any) -> str | None:
        if response in (None, "", {}):
            self._modals.close(user, view["id"])
            return None
        action = response.get("response_action") if isinstance(response, dict) else None
        if action == "clear":
            self._modals.clear(user)
        elif action == "update":
            self._modals.update(view["id"], None, readable_view(_view_of(response), "modal"), None)
        elif action == "push":
            self._modals.push(user, readable_view(_view_of(response), "modal"))
        elif action == "errors":
            known = {block["block_id"] for block in view["blocks"] if block["type"] == "input"}
            errors = response.get("errors")
            if not isinstance(errors, dict) or not errors or not set(errors) <= known:
                raise SandboxRefusal("invalid_arguments", "errors must name input blocks of the view")
        else:
            raise SandboxRefusal("invalid_arguments", "unknown response_action")
        return None


def _view_of(response: Json) -> Json:
    view = response.get("view")
    if not isinstance(view, dict):
        raise SandboxRefusal("invalid_arguments", "missing required field: view")
    return view

"""Up to five responses within thirty minutes to the place of an interaction.

Source: Slack, "Handling user interaction": Message responses.
"""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from signoff_demo.sandbox.arguments import Arguments
from signoff_demo.sandbox.methods.chat import author, message_content
from signoff_demo.sandbox.people_and_places import Channel
from signoff_demo.sandbox.refusal import Json, SandboxRefusal
from signoff_demo.sandbox.workspace import SandboxWorkspace

USES = 5
SECONDS = 30 * 60.0


@dataclass
class Link:
    """A response URL's target and use; `expires` is in seconds of the monotonic clock."""

    user: str
    channel: Channel
    thread_ts: str | None
    message_ts: str | None
    ephemeral: bool
    expires: float
    uses: int = 0
    posts: list[Json] = field(default_factory=list)


class ResponseUrls:
    """A keeper of response URLs, which accepts the app's responses and refuses expired and used-up ones."""

    def __init__(self, workspace: SandboxWorkspace) -> None:
        self.base = ""
        self._workspace = workspace
        self._links: dict[str, Link] = {}

    def new(
        self,
        kind: str,
        user: str,
        channel: Channel,
        *,
        message_ts: str | None = None,
        thread_ts: str | None = None,
        ephemeral: bool = False,
    ) -> tuple[str, Link]:
        """`kind` is "actions", "commands" or "app"."""
        key = f"{kind}/{self._workspace.team.id}/{secrets.randbelow(10**13)}/{secrets.token_urlsafe(18)}"
        link = Link(user, channel, thread_ts, message_ts, ephemeral, time.monotonic() + SECONDS)
        self._links[key] = link
        return f"{self.base}/{key}", link

    async def handle(self, request: web.Request) -> web.StreamResponse:
        try:
            self.respond(self._usable(request.path), _decoded(await request.text()))
        except SandboxRefusal as error:
            status = 404 if error.code in ("expired_url", "used_url") else 400
            return web.json_response(error.body(), status=status)
        return web.Response(text="ok")

    def respond(self, link: Link, body: Json) -> None:
        """Also for responses sent with an acknowledgement. Raises SandboxRefusal like chat.postMessage."""
        workspace, channel = self._workspace, link.channel
        if body.get("delete_original"):
            self._replace_original(link, None)
        else:
            content = {**author(workspace), **message_content(Arguments(body))}
            if body.get("replace_original") and link.message_ts is not None:
                self._replace_original(link, content)
            elif body.get("response_type") == "in_channel":
                thread_ts = body.get("thread_ts") or link.thread_ts
                workspace.post(channel, content, thread_ts)
            else:
                thread = body.get("thread_ts") or link.thread_ts
                workspace.post_ephemeral(
                    channel, link.user, content | ({"thread_ts": thread} if thread else {})
                )
        link.uses += 1
        link.posts.append(body)
        workspace.changes.wake()

    def _usable(self, path: str) -> Link:
        link = self._links.get(path.lstrip("/"))
        if link is None or time.monotonic() > link.expires:
            raise SandboxRefusal("expired_url")
        if link.uses >= USES:
            raise SandboxRefusal("used_url")
        return link

    def _replace_original(self, link: Link, content: Json | None) -> None:
        workspace, channel, ts = self._workspace, link.channel, link.message_ts
        if ts is None:
            raise SandboxRefusal("message_not_found")
        if link.ephemeral:
            if not workspace.messages.change_ephemeral(link.user, ts, content):
                raise SandboxRefusal("message_not_found")
            workspace.changes.publish(
                {"type": "ephemeral", "channel": channel.id, "user": link.user, "ts": ts}
            )
        elif content is None:
            workspace.delete(channel, ts)
        else:
            workspace.edit(channel, ts, content, [] if "blocks" in content else ["blocks"])


def _decoded(text: str) -> Json:
    try:
        body: Any = json.loads(text)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise SandboxRefusal("invalid_payload")
    return body

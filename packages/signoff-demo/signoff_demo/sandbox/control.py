"""HTTP interface of the browser page: read the workspace's state, and act as one of its members."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from signoff_demo.sandbox.elements import NotOnScreen
from signoff_demo.sandbox.manifest import manifest_shortcuts
from signoff_demo.sandbox.parts import SandboxParts
from signoff_demo.sandbox.person import InteractionResult, ScreenUser
from signoff_demo.sandbox.refusal import Json, SandboxRefusal

log = logging.getLogger(__name__)

_SENTENCES = {
    "channel_not_found": "There is no such channel here.",
    "is_archived": "This channel is archived.",
    "message_not_found": "This message has been deleted.",
    "not_in_channel": "You are not a member of this channel.",
    "thread_not_found": "This thread has been deleted.",
    "user_not_found": "There is no such person here.",
}
"""What the page says in place of Slack's codes."""

PAGE = Path(__file__).parent / "page"
_KEEP_ALIVE_SECONDS = 15.0


class Control:
    """An HTTP interface for the browser page: shows the workspace's state, and acts for its members."""

    def __init__(self, stage: SandboxParts) -> None:
        self._stage = stage
        self._workspace = stage.workspace

    def add_routes(self, app: web.Application) -> None:
        router = app.router
        router.add_get("/", self._guarded(self._page))
        if PAGE.is_dir():
            router.add_static("/static/", PAGE)
        router.add_get("/sandbox/state", self._guarded(self._state))
        router.add_get("/sandbox/guide", self._guarded(self._guide))
        router.add_get("/archives/{channel}/{message}", self._guarded(self._permalink))
        router.add_get("/sandbox/channels/{channel}/messages", self._guarded(self._messages))
        router.add_get("/sandbox/people/{user}/views", self._guarded(self._views))
        router.add_get("/sandbox/people/{user}/home", self._guarded(self._home))
        router.add_get("/sandbox/events", self._guarded(self._events))
        router.add_post("/sandbox/levers/{name}", self._guarded(self._lever))
        for name, act in self._acts().items():
            router.add_post(f"/sandbox/act/{name}", self._guarded(self._action(act)))

    def _guarded(
        self, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def guarded(request: web.Request) -> web.StreamResponse:
            # Browsers send the header across origins only with our consent.
            if request.method == "POST" and request.headers.get("X-Sandbox") != "1":
                return web.Response(status=403, text="the header X-Sandbox is missing\n")
            return await handler(request)

        return guarded

    def _person(self, user: str) -> ScreenUser:
        if user not in self._workspace.members:
            raise SandboxRefusal("user_not_found")
        return ScreenUser(self._stage, user)

    def _channel(self, channel: str) -> str:
        if channel not in self._workspace.channels:
            raise SandboxRefusal("channel_not_found")
        return channel

    async def _page(self, _: web.Request) -> web.StreamResponse:
        index = PAGE / "index.html"
        if not index.is_file():
            return web.Response(status=404, text="page missing\n")
        return web.FileResponse(index, headers={"Cache-Control": "no-cache"})

    async def _state(self, _: web.Request) -> web.Response:
        workspace = self._workspace
        team, bot = workspace.team, workspace.bot
        return web.json_response(
            {
                "team": {"id": team.id, "name": team.name, "domain": team.domain},
                "bot": {"id": bot.bot_id, "user_id": bot.user_id, "app_id": bot.app_id, "name": bot.name},
                "members": [member.as_slack() for member in workspace.members.values()],
                "usergroups": [
                    group.as_slack(team.id, include_users=True) for group in workspace.usergroups.values()
                ],
                "channels": [
                    {**channel.as_slack(team.id, bot.user_id), "members": sorted(channel.members)}
                    for channel in workspace.channels.values()
                ],
                "shortcuts": list(manifest_shortcuts()),
                "commands": [
                    next(each for each in app.commands if each["command"] == name)
                    for name, app in workspace.command_owners.items()
                ],
                "connected": bool(self._stage.sockets.connections) or self._stage.http.url is not None,
                "now": time.time(),
            }
        )

    async def _guide(self, _: web.Request) -> web.Response:
        return web.json_response({"scenes": []} if self._stage.guide is None else self._stage.guide())

    async def _permalink(self, request: web.Request) -> web.StreamResponse:
        channel, number = request.match_info["channel"], request.match_info["message"].removeprefix("p")
        at = {"channel": channel, "message": f"{number[:-6]}.{number[-6:]}"}
        if thread := request.query.get("thread_ts"):
            at["thread"] = thread
        raise web.HTTPFound(f"/#{urlencode(at)}")

    async def _lever(self, request: web.Request) -> web.Response:
        lever = self._stage.levers.get(request.match_info["name"])
        if lever is None:
            return web.json_response({"error": "no such lever"}, status=404)
        try:
            told = lever()
            return web.json_response({"told": told if isinstance(told, str) else await told})
        except Exception:
            log.exception("a lever of the guide failed")
            return web.json_response({"error": "failed"}, status=500)

    async def _messages(self, request: web.Request) -> web.Response:
        channel = request.match_info["channel"]
        if channel not in self._workspace.channels:
            return web.json_response({"error": "channel_not_found"}, status=404)
        roots = self._workspace.messages.roots(channel)
        for root in roots:
            root["replies"] = (
                self._workspace.messages.thread(channel, root["ts"])[1:] if _has_thread(root) else []
            )
        ephemeral = self._workspace.messages.ephemeral_by_user(channel)
        return web.json_response({"messages": roots, "ephemeral": ephemeral})

    async def _views(self, request: web.Request) -> web.Response:
        return web.json_response({"stack": self._workspace.modals.stack(request.match_info["user"])})

    async def _home(self, request: web.Request) -> web.Response:
        return web.json_response({"view": self._workspace.modals.home(request.match_info["user"])})

    async def _events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        async with self._workspace.changes.listen() as queue:
            await response.prepare(request)
            with suppress(ConnectionResetError):  # the page was closed
                await response.write(b": open\n\n")
                await _tell(response, queue)
        return response

    def _action(
        self, act: Callable[[ScreenUser, Json], Awaitable[InteractionResult]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def action(request: web.Request) -> web.Response:
            try:
                wanted = await request.json()
                answer = await act(self._person(wanted["user"]), wanted)
            except NotOnScreen as error:
                log.info("%s", error)
                return _refusal(error.sentence, 200)
            except SandboxRefusal as error:
                return _refusal(_SENTENCES.get(error.code, f"Slack refused this: {error.code}."), 200)
            except (ValueError, TypeError, KeyError, AttributeError):
                log.info("a request of the page could not be read", exc_info=True)
                return _refusal("The sandbox did not understand this request.", 400)
            except Exception:
                log.exception("an action of the page failed")
                return _refusal("The sandbox failed here. Its log says why.", 500)
            return web.json_response(
                {
                    "ok": answer.error is None and not answer.errors,
                    "error": answer.error,
                    "errors": bool(answer.errors),
                    "elapsed": answer.elapsed,
                    "response": answer.response,
                }
            )

        return action

    def _acts(self) -> dict[str, Callable[[ScreenUser, Json], Awaitable[InteractionResult]]]:
        async def say(person: ScreenUser, wanted: Json) -> InteractionResult:
            message = person.say(self._channel(wanted["channel"]), wanted["text"], wanted.get("thread_ts"))
            return InteractionResult(True, None, 0.0, None, message)

        async def command(person: ScreenUser, wanted: Json) -> InteractionResult:
            where = self._channel(wanted["channel"]), wanted.get("thread_ts")
            return await person.command(wanted["command"], wanted.get("text", ""), *where)

        async def click(person: ScreenUser, wanted: Json) -> InteractionResult:
            # The page may not have drawn the latest change yet: what it shows is pressed, as in Slack.
            return await person.click(
                _place(wanted),
                stale=True,
                action_id=wanted["action_id"],
                block_id=wanted["block_id"],
                value=_chosen(wanted),
                state=wanted.get("state"),
            )

        async def shortcut(person: ScreenUser, wanted: Json) -> InteractionResult:
            return await person.shortcut(wanted["callback_id"], _place(wanted) if "ts" in wanted else None)

        async def submit(person: ScreenUser, wanted: Json) -> InteractionResult:
            return await person.submit(
                wanted["view_id"], wanted.get("values") or {}, drawn=wanted.get("hash")
            )

        async def close(person: ScreenUser, wanted: Json) -> InteractionResult:
            return await person.close(wanted["view_id"], bool(wanted.get("clear")))

        async def home(person: ScreenUser, wanted: Json) -> InteractionResult:
            person.open_home(wanted.get("tab", "home"))
            return InteractionResult(True, None, 0.0, None)

        return {
            "say": say,
            "command": command,
            "click": click,
            "shortcut": shortcut,
            "submit": submit,
            "close": close,
            "home": home,
        }


async def _tell(response: web.StreamResponse, queue: asyncio.Queue[Json | None]) -> None:
    while True:
        try:
            async with asyncio.timeout(_KEEP_ALIVE_SECONDS):
                change = await queue.get()
        except TimeoutError:
            await response.write(b": still here\n\n")
            continue
        if change is None:
            return
        await response.write(f"data: {json.dumps(change)}\n\n".encode())


def _place(wanted: Json) -> Any:
    if wanted.get("home"):
        return "home"
    return wanted["view_id"] if wanted.get("view_id") else (wanted["channel"], wanted["ts"])


def _chosen(wanted: Json) -> Any:
    """A button's own value need not be sent."""
    if wanted.get("selected_option"):
        return wanted["selected_option"]
    if wanted.get("selected_options") is not None:
        return wanted["selected_options"]
    state: Any = wanted.get("state") or {}
    if state.get(wanted["block_id"], {}).get(wanted["action_id"]):
        return state[wanted["block_id"]][wanted["action_id"]]
    return wanted.get("value")


def _has_thread(message: Json) -> bool:
    return bool(message.get("reply_count")) or message.get("thread_ts") == message["ts"]


def _refusal(error: str, status: int) -> web.Response:
    return web.json_response({"ok": False, "error": error, "elapsed": 0.0, "response": None}, status=status)

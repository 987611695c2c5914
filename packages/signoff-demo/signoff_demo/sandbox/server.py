"""The sandbox as a server on loopback."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from aiohttp import web

from signoff_demo.sandbox.control import Control
from signoff_demo.sandbox.deliveries import RETRY_DELAYS, Deliveries
from signoff_demo.sandbox.delivery_report import ACK_SECONDS, DeliveryReport
from signoff_demo.sandbox.faults import Faults
from signoff_demo.sandbox.interactions import Interactions
from signoff_demo.sandbox.local_requests import only_this_machine
from signoff_demo.sandbox.openid import OpenIdProvider
from signoff_demo.sandbox.parts import SandboxParts
from signoff_demo.sandbox.person import ScreenUser
from signoff_demo.sandbox.rate_limits import RateLimits
from signoff_demo.sandbox.refusal import Json
from signoff_demo.sandbox.response_urls import ResponseUrls
from signoff_demo.sandbox.signed_http import SignedHttp, SignedRequest
from signoff_demo.sandbox.socket_mode import SocketModeServer
from signoff_demo.sandbox.uploads import Uploads
from signoff_demo.sandbox.web_api import ApiCall, WebApi
from signoff_demo.sandbox.workspace import SandboxWorkspace, demo_workspace

T = TypeVar("T")

COMMANDS: tuple[Json, ...] = (
    {"command": "/agent", "description": "Run and watch agents", "usage_hint": "run <agent> <task>"},
    {"command": "/approvals", "description": "What waits for a decision", "usage_hint": "[show <id>]"},
)


class SlackSandbox:
    """A Slack workspace on loopback; use it as an async context manager.

    Delivers over Socket Mode while the app is connected, otherwise to `request_url` (may be set later).
    `trigger_seconds` and `ack_seconds` default to Slack's 3 s; `event_retry_delays` are seconds between retries of an
    event. `echo` sends the app events for its own messages, as Slack does. Secrets that are not given are random.
    Sandboxes with one `workspace` are several apps in it.

    `guide` returns what the page shows beside the channels: `{"title", "start": {"user", "channel"}, "cast": [user],
    "scenes": [{"title", "intro", "after", "steps", "run"?}]}`. A step is `{"text", "label", "done", "waits"}` with its
    button's action: `as`, `channel`, `ts`, `command`, `draft`, `reply`, `home`, `inbox`, `lever`. A lever is one of
    `levers`, which may be added later.
    """

    def __init__(
        self,
        workspace: SandboxWorkspace | None = None,
        *,
        request_url: str | None = None,
        signing_secret: str | None = None,
        bot_token: str | None = None,
        app_token: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        commands: Sequence[Json] = COMMANDS,
        rate_limits: bool | RateLimits = True,
        trigger_seconds: float = 3.0,
        ack_seconds: float = ACK_SECONDS,
        event_retry_delays: Sequence[float] = RETRY_DELAYS,
        should_escape: bool = True,
        echo: bool = True,
        guide: Callable[[SlackSandbox], Json] | None = None,
    ) -> None:
        self.workspace = workspace or demo_workspace()
        self.workspace.modals.trigger_seconds = trigger_seconds
        self.bot_token = bot_token or f"xoxb-{secrets.token_hex(16)}"
        self.app_token = app_token or f"xapp-{secrets.token_hex(16)}"
        self.signing_secret = signing_secret or secrets.token_hex(16)
        self.host, self.port = host, port
        self.faults = Faults()
        self.rate_limits = (
            rate_limits if isinstance(rate_limits, RateLimits) else RateLimits(enabled=rate_limits)
        )
        self.interactions = Interactions(self.workspace)
        self.response_urls = ResponseUrls(self.workspace)
        self.uploads = Uploads(self.workspace, self.bot_token)
        self.sockets = SocketModeServer(self.workspace.bot.app_id, self.faults, self.workspace.changes)
        self.http = SignedHttp(request_url, self.signing_secret)
        self.deliveries = Deliveries(self.workspace, self.sockets, self.http, ack_seconds, event_retry_delays)
        self.web_api = WebApi(
            self.workspace,
            bot_token=self.bot_token,
            app_token=self.app_token,
            faults=self.faults,
            rate_limits=self.rate_limits,
            finish=self._with_addresses,
        )
        self.openid = OpenIdProvider(self.workspace, "sandbox-client", secrets.token_hex(16))
        self.stage = SandboxParts(
            self.workspace,
            self.sockets,
            self.http,
            self.deliveries,
            self.interactions,
            self.response_urls,
            tuple(commands),
            should_escape,
            None if guide is None else partial(guide, self),
        )
        self.levers = self.stage.levers
        self._echo = echo
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Raises OSError if the port is in use."""
        app = web.Application(client_max_size=64 * 1024 * 1024, middlewares=[only_this_machine])
        self.openid.add_routes(app)
        app.router.add_route("*", "/api/{method}", self.web_api.handle)
        app.router.add_get("/link/", self.sockets.handle)
        for kind in ("actions", "commands", "app"):
            app.router.add_post(f"/{kind}/{{team}}/{{number}}/{{secret}}", self.response_urls.handle)
        self.uploads.add_routes(app)
        Control(self.stage).add_routes(app)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.response_urls.base = self.uploads.base = self.openid.issuer = self.url
        self.workspace.apps.append(self._tell)
        self.workspace.command_owners |= dict.fromkeys(self.stage.command_names, self.stage)

    async def stop(self) -> None:
        """Pending deliveries are abandoned."""
        if self._tell in self.workspace.apps:
            self.workspace.apps.remove(self._tell)
        owners = self.workspace.command_owners
        for name in [each for each, owner in owners.items() if owner is self.stage]:
            del owners[name]
        await self.deliveries.close()
        self.workspace.changes.close()
        await self.sockets.close()
        await self.http.close()
        if self._runner is not None:
            await self._runner.cleanup()

    # -- addresses --------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The browser page's URL."""
        return f"http://{self.host}:{self.port}"

    @property
    def api_url(self) -> str:
        return f"{self.url}/api/"

    @property
    def request_url(self) -> str | None:
        """Where deliveries go without an open socket."""
        return self.http.url

    @request_url.setter
    def request_url(self, url: str | None) -> None:
        self.http.url = url

    # -- for tests and the demo --------------------------------------------------------------------

    def person(self, user_id: str) -> ScreenUser:
        """Raises KeyError for an unknown id."""
        if user_id not in self.workspace.members:
            raise KeyError(user_id)
        return ScreenUser(self.stage, user_id)

    def messages(self, channel: str) -> list[Json]:
        """Without thread replies, oldest first, each with its `channel`."""
        return [{**each, "channel": channel} for each in self.workspace.messages.roots(channel)]

    def thread(self, channel: str, ts: str) -> list[Json]:
        """A root and its replies, oldest first, each with its `channel`."""
        return [{**each, "channel": channel} for each in self.workspace.messages.thread(channel, ts)]

    def ephemeral(self, user: str, channel: str | None = None) -> list[Json]:
        return self.workspace.messages.ephemeral_messages(user, channel)

    def views(self, user: str) -> list[Json]:
        """Topmost last."""
        return self.workspace.modals.stack(user)

    def home(self, user: str) -> Json | None:
        return self.workspace.modals.home(user)

    @property
    def calls(self) -> list[ApiCall]:
        return self.web_api.calls

    def calls_of(self, method: str) -> list[ApiCall]:
        return [call for call in self.calls if call.method == method]

    async def wait_for(self, predicate: Callable[[], T | None], timeout: float = 30.0) -> T:
        """Poll until the predicate is truthy. Raises TimeoutError after `timeout` seconds."""
        return await self.workspace.changes.wait_for(predicate, timeout)

    async def send(self, request: SignedRequest, seconds: float = ACK_SECONDS) -> DeliveryReport:
        """Send a request to the app unchanged, for replays and tampering."""
        return await self.http.send(request, seconds)

    def sign(self, body: bytes, timestamp: int | None = None) -> SignedRequest:
        """Sign any form body, for `slack.send`."""
        return self.http.sign(body, timestamp=timestamp)

    def _tell(self, event: Json) -> None:
        own = event.get("bot_id") == self.workspace.bot.bot_id or "previous_message" in event
        if self._echo or not own:
            self.deliveries.event(event)

    def _with_addresses(self, method: str, body: Json) -> Json:
        if method == "apps.connections.open":
            app_id = self.workspace.bot.app_id
            ticket = self.sockets.new_ticket()
            return body | {"url": f"ws://{self.host}:{self.port}/link/?ticket={ticket}&app_id={app_id}"}
        if method == "files.getUploadURLExternal":
            return body | {"upload_url": self.uploads.address(body["file_id"])}
        return body

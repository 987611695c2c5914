from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from slack_sandbox.deliveries import Deliveries
from slack_sandbox.interactions import Interactions
from slack_sandbox.refusal import Json
from slack_sandbox.response_urls import ResponseUrls
from slack_sandbox.signed_http import SignedHttp
from slack_sandbox.socket_mode import SocketModeServer
from slack_sandbox.workspace import SandboxWorkspace


@dataclass(frozen=True)
class SandboxParts:
    """`commands` are the app's registered slash commands."""

    workspace: SandboxWorkspace
    sockets: SocketModeServer
    http: SignedHttp
    deliveries: Deliveries
    interactions: Interactions
    response_urls: ResponseUrls
    commands: tuple[Json, ...]
    should_escape: bool = True
    guide: Callable[[], Json] | None = None
    levers: dict[str, Callable[[], str | Awaitable[str]]] = field(default_factory=dict)
    """Actions behind the guide's buttons, by name; each returns a message for the page."""

    @property
    def command_names(self) -> set[str]:
        return {each["command"] for each in self.commands}

"""The parts of a sandbox that others reach."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from signoff_demo.sandbox.deliveries import Deliveries
from signoff_demo.sandbox.interactions import Interactions
from signoff_demo.sandbox.refusal import Json
from signoff_demo.sandbox.response_urls import ResponseUrls
from signoff_demo.sandbox.signed_http import SignedHttp
from signoff_demo.sandbox.socket_mode import SocketModeServer
from signoff_demo.sandbox.workspace import SandboxWorkspace


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

"""Everything that a person at the screen, or the page, needs of the stand-in to act."""

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
    """The parts of one running stand-in; `commands` are what the app has registered with Slack."""

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
    """What buttons of the guide do to the world around, by name; each returns what the page then says."""

    @property
    def command_names(self) -> set[str]:
        """The slash commands that people can type."""
        return {each["command"] for each in self.commands}

"""Everything that a person at the screen, or the page, needs of the stand-in to act."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .deliveries import Deliveries
from .interactions import Interactions
from .response_urls import ResponseUrls
from .signed_http import SignedHttp
from .slack_error import Json
from .socket_mode import SocketMode
from .workspace import Workspace


@dataclass(frozen=True)
class Stage:
    """The parts of one running stand-in; `commands` are what the app has registered with Slack."""

    workspace: Workspace
    sockets: SocketMode
    http: SignedHttp
    deliveries: Deliveries
    interactions: Interactions
    response_urls: ResponseUrls
    commands: tuple[Json, ...]
    should_escape: bool = True
    tour: Json | None = None
    levers: dict[str, Callable[[], str]] = field(default_factory=dict)
    """What buttons of the tour do to the world around, by name; each returns what the page then says."""

    @property
    def command_names(self) -> set[str]:
        """The slash commands that people can type."""
        return {each["command"] for each in self.commands}

"""What a process hears from Slack: Bolt with all listeners, behind signed HTTP or Socket Mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from agent.database.pools import Database
from agent.runtime.policy_in_force import PolicyInForce
from agent.runtime.services import Services
from agent.usecases.requests import Votes
from slackbot.cards.command_names import CommandNames
from slackbot.slack.app_home import AppHomes
from slackbot.slack.listeners import ListenerContext, new_app, register
from slackbot.slack.signed_http import SignedEndpoint
from slackbot.slack.socket_mode import SocketMode
from slackbot.slack_api.connection import SlackConnection
from slackbot.slack_api.workspace import Workspace


@dataclass(frozen=True)
class ListeningSettings:
    """`app_token`: for Socket Mode, which is preferred; `signing_secret`: for HTTP; neither: nothing is heard."""

    commands: CommandNames
    api_url: str
    app_token: str | None = field(default=None, repr=False)
    signing_secret: str | None = field(default=None, repr=False)
    invitation: Callable[[str], str] | None = None


class Listening:
    """Listeners of one workspace; `start` connects a socket, `handle` takes what comes over HTTP."""

    def __init__(
        self,
        settings: ListeningSettings,
        workspace: Workspace,
        connection: SlackConnection,
        db: Database,
        services: Services,
        votes: Votes,
        policies: PolicyInForce,
        reviewers_changed: Callable[[str], None],
    ) -> None:
        client, directory, permalinks = connection.client, connection.directory, connection.permalinks
        self.ctx = ListenerContext(
            db=db,
            directory=directory,
            client=client,
            services=services,
            votes=votes,
            homes=AppHomes(db, directory, client, permalinks, policies, commands=settings.commands),
            commands=settings.commands,
            permalinks=permalinks,
            invitation=settings.invitation,
            reviewers_changed=reviewers_changed,
        )
        bolt = new_app(
            client, team_id=workspace.team_id, bot_user_id=workspace.bot_user_id, bot_id=workspace.bot_id
        )
        register(bolt, self.ctx)
        self._sockets: SocketMode | None = None
        self._edge: SignedEndpoint | None = None
        if settings.app_token:
            self._sockets = SocketMode(bolt, settings.app_token, settings.api_url)
        elif settings.signing_secret:
            self._edge = SignedEndpoint(bolt, settings.signing_secret, db.precedence)

    async def start(self) -> None:
        if self._sockets is not None:
            await self._sockets.start()

    async def handle(self, request: Request) -> Response:
        if self._edge is None:
            return PlainTextResponse("", status_code=404)
        return await self._edge.handle(request)

    @property
    def problem(self) -> str | None:
        if self._sockets is None or (socket := self._sockets.health).connected:
            return None
        return f"socket closed: {socket.refusal}" if socket.refusal else "socket closed"

    async def stop(self) -> None:
        """HTTP stops with its server."""
        if self._sockets is not None:
            await self._sockets.stop()

    async def finish(self) -> None:
        """After the last vote."""
        await self.ctx.background.finish()
        await self.ctx.homes.stop()

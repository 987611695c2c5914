"""What a process with the role `web` serves: the API, the inbox page, and what Slack sends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from starlette.routing import BaseRoute, Route

from agent.database.pools import Database
from agent.runtime.policy_in_force import PolicyInForce
from agent.runtime.services import Services
from agent.usecases.requests import Votes
from slackbot.service import open_files
from slackbot.service.slack_service import Listen, SlackService
from slackbot.settings import Settings
from slackbot.slack.listening import Listening, ListeningSettings
from slackbot.slack_api.connection import SlackConnection
from slackbot.slack_api.manifest import EVENTS_PATH
from slackbot.slack_api.openid import OpenID
from slackbot.slack_api.workspace import Workspace
from slackbot.web.application import application
from slackbot.web.http.context import WebContext
from slackbot.web.http.metrics import MOST_CONNECTIONS
from slackbot.web.http.places import Places
from slackbot.web.http.server import HttpServer
from slackbot.web.http.watch import ChangeWatch
from slackbot.web.inbox.sign_in import link_for


class WebService:
    """The HTTP server of a process, with everything that it serves."""

    def __init__(
        self,
        settings: Settings,
        db: Database,
        services: Services,
        votes: Votes,
        slack: SlackService,
        health: Sequence[BaseRoute],
    ) -> None:
        self.watch = ChangeWatch(db)
        self.places = Places(open_files.connections_within(open_files.soft_limit(), settings))
        ctx = WebContext(
            db=db,
            services=services,
            votes=votes,
            slack_or_none=slack.connection,
            watch=self.watch,
            public_url=settings.public_url,
            openid=_openid(settings),
            webhook_networks=settings.webhook_networks,
            cors_origins=settings.cors_origins,
            commands=settings.commands,
            places=self.places,
        )
        self.http = HttpServer(
            application(ctx, [Route(EVENTS_PATH, slack.events, methods=["POST"]), *health]),
            host=settings.host,
            port=settings.port,
            drain_seconds=settings.drain_seconds,
            trusted_proxies=[str(network) for network in settings.trusted_proxies],
            most=self.places.most,
        )

    async def start(self) -> None:
        """Raises SignoffError if the port is taken."""
        MOST_CONNECTIONS.set(self.places.most)
        await self.http.start()

    async def stop(self) -> None:
        """Long-polls end first, so that the drain time is left for other calls."""
        await self.watch.let_go()
        await self.http.stop()


def listen(settings: Settings, db: Database, policies: PolicyInForce) -> Listen:
    """Make the listeners once Slack has identified us."""
    token, secret = settings.slack_app_token, settings.slack_signing_secret
    of = ListeningSettings(
        commands=settings.commands,
        api_url=settings.slack_api_url,
        app_token=token.get_secret_value() if token else None,
        signing_secret=secret.get_secret_value() if secret else None,
        invitation=partial(link_for, settings.public_url) if settings.public_url else None,
    )

    def listening(
        workspace: Workspace,
        connection: SlackConnection,
        services: Services,
        votes: Votes,
        reviewers_changed: Callable[[str], None],
    ) -> Listening:
        return Listening(of, workspace, connection, db, services, votes, policies, reviewers_changed)

    return listening


def _openid(settings: Settings) -> OpenID | None:
    name, secret = settings.slack_client_id, settings.slack_client_secret
    return OpenID.at(settings.slack_api_url, name, secret) if name and secret else None

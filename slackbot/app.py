"""The composition root: the one place that picks concrete parts and starts and stops them in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from agent.database import migrations
from agent.database.pools import Database
from agent.domain.errors import NotFound
from agent.domain.policy import Policy
from agent.runtime.agents import Registry
from agent.runtime.executor import Executor
from agent.runtime.heartbeat import Heartbeat
from agent.runtime.model import Model
from agent.runtime.services import Services, worker_name
from agent.runtime.user_code import UserCode
from agent.runtime.votes import Votes
from agent.store import views
from agent.store.outbox import Destination
from agent.usecases import audit
from signoff.errors import SignoffError
from slackbot.delivery.drain import Drain
from slackbot.delivery.poller import DeliveryPoller
from slackbot.outbound.mail import Mailer
from slackbot.outbound.mail_server import MailServer
from slackbot.outbound.sender import OutboundSender
from slackbot.outbound.webhook_post import WebhookPoster
from slackbot.service.scheduler import Scheduler
from slackbot.service.telemetry import Telemetry
from slackbot.settings import Role, Settings
from slackbot.slack.app_home import AppHomes
from slackbot.slack.listeners import ListenerContext, new_app, register
from slackbot.slack.signed_http import SignedEndpoint
from slackbot.slack.socket_mode import SocketMode
from slackbot.slack_api.client import SlackClient, SlackError
from slackbot.slack_api.directory import Directory
from slackbot.slack_api.manifest import EVENTS_PATH
from slackbot.slack_api.permalinks import Permalinks
from slackbot.slack_api.workspace import Workspace, find_channel, identify, identify_until_known
from slackbot.web import (
    ChangeWatch,
    HttpServer,
    OpenID,
    ProcessPart,
    ServiceMetrics,
    SlackConnection,
    WebContext,
    application,
    health_application,
    health_routes,
)
from slackbot.web.inbox.sign_in import link_for

log = structlog.get_logger(__name__)

KEYLESS = "not-set"
"""What the model's client is given when no key is set; the model's server says what it thinks of it."""

SPARE_THREADS = 32
"""Threads for sync user code beyond one for each call: for edits, and for what outlived its timeout."""


class NotConnected(SignoffError):
    """Slack has not told us yet who we are; what depends on it is looked at again later."""


@dataclass
class Slack:
    """The parts that exist once we know who we are in Slack."""

    workspace: Workspace
    directory: Directory
    ctx: ListenerContext
    edge: SignedEndpoint | None
    sockets: SocketMode | None
    drain: Drain
    poller: DeliveryPoller


class Service:
    """One process of Signoff, with the roles it was given. `start`, then `run` until stopped, then `stop`."""

    def __init__(self, settings: Settings, db: Database, policy: Policy, registry: Registry) -> None:
        self.settings = settings
        self.db = db
        self.policy = policy
        self.registry = registry
        self.name = worker_name()
        self._client = _client(settings)
        self._slack: Slack | None = None
        self._channels: dict[str, str] = {}
        self._model = _model(settings)
        self._services = Services(
            db=db,
            policy=policy,
            registry=registry,
            model=self._model,
            heartbeat=Heartbeat(db, self.name),
            worker=self.name,
            destination=self._destination,
            user_code=UserCode(threads=settings.concurrency + SPARE_THREADS),
        )
        self._executor = Executor(
            self._services,
            self._notify,
            concurrency=settings.concurrency,
            drain_seconds=settings.drain_seconds,
        )
        self._votes = Votes(self._services, self._executor.calls if Role.WORKER in settings.roles else None)
        self._watch = ChangeWatch(db)
        ctx = self._web_context()
        self._outbound = OutboundSender(ctx, WebhookPoster(settings.webhook_networks), _mailer(settings))
        self._metrics = ServiceMetrics(db, self._part)
        self._http = HttpServer(
            application(ctx, self._routes()),
            host=settings.host,
            port=settings.port,
            drain_seconds=settings.drain_seconds,
            trusted_proxies=[str(network) for network in settings.trusted_proxies],
        )
        self._health = HttpServer(
            health_application(self.check, self._metrics.exposition),
            host=settings.host,
            port=settings.health_port or 0,
            drain_seconds=1,
        )
        self._draining = False
        self._scheduler = Scheduler(db, cards_per_minute=policy.defaults.cards_per_minute)
        self._telemetry: Telemetry | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._failed: asyncio.Future[None] | None = None

    @property
    def health_port(self) -> int | None:
        """The port of the health routes alone, where SIGNOFF_HEALTH_PORT asks for one."""
        return self._health.port

    @property
    def port(self) -> int | None:
        """The port that is listened on, once started with the role ``web``."""
        return self._http.port

    # --- life -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start every part. Slack being away is waited for.

        Raises SignoffError when a part can never work: a token that Slack rejects, a channel that does not exist.
        """
        self._failed = asyncio.get_running_loop().create_future()
        if self._client is not None:
            self._client.keep_connections()
        await self.db.open()
        self._telemetry = Telemetry.of(self.db, self.name)
        if self._telemetry is not None:
            self._telemetry.start()
        self._services.user_code.watchdog.watch(
            asyncio.get_running_loop(), threading.current_thread(), "service"
        )
        await audit.record_policy(self.db, self.policy.digest, f"worker:{self.name}")
        if self.settings.health_port is not None:
            await self._health.start()
        if Role.WEB in self.settings.roles:
            await self._http.start()
        if self._client is not None:
            await self._connect(self._client)
        if Role.WORKER in self.settings.roles:
            await self._executor.start()
        if Role.SCHEDULER in self.settings.roles:
            self._scheduler.start()
        log.info(
            "started",
            action="service.started",
            worker=self.name,
            roles=sorted(self.settings.roles),
            port=self.port,
            health_port=self.health_port,
            database_connections=self._connections(),
        )

    def _connections(self) -> int:
        """How many connections to the database this process opens at most: its pools, and the executor's own."""
        own = self._executor.connections if Role.WORKER in self.settings.roles else 0
        return sum(pool.most for pool in self.db.pools()) + own

    async def run(self) -> None:
        """Wait until cancelled. Raises SignoffError when a part turns out never to work."""
        if self._failed is not None:
            await self._failed

    async def stop(self) -> None:
        """Take nothing new, let what is under way end within the drain time, let go."""
        log.info("stopping", action="service.stopping", worker=self.name)
        self._draining = True
        self._scheduler.stop()
        for task in self._tasks:  # Slack, where it was still being waited for
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        working = asyncio.gather(
            self._executor.stop() if Role.WORKER in self.settings.roles else _nothing(),
            self._slack.poller.stop(self.settings.drain_seconds) if self._slack else _nothing(),
        )
        if Role.WEB in self.settings.roles:
            # Until whoever balances the load has seen that we are not ready, calls still come in and are served.
            await asyncio.sleep(self.settings.pre_stop_seconds)
            if self._slack and self._slack.sockets:
                await self._slack.sockets.stop()
            await self._watch.let_go()
            await self._http.stop()
            await self._votes.finish()
            await self._watch.stop()
        await working
        await self._outbound.stop(self.settings.drain_seconds)
        if self._slack:
            await self._slack.ctx.background.finish()
            await self._slack.ctx.homes.stop()
            await self._slack.drain.reviewers.stop()
        await self._services.user_code.stop()
        await self._model.close()
        if self._client is not None:
            await self._client.close()
        await self._health.stop()
        if self._telemetry is not None:
            await self._telemetry.stop()
        await self.db.close()

    # --- Slack ----------------------------------------------------------------------------------------

    async def _connect(self, client: SlackClient) -> None:
        """Learn who we are, now if Slack answers, else in the background."""
        try:
            await self._come_in(await identify(client))
        except SlackError as error:
            log.warning("Slack cannot be reached yet", action="slack.unreachable", error=str(error))
            self._tasks.append(asyncio.create_task(self._connect_later(client), name="slack"))

    async def _connect_later(self, client: SlackClient) -> None:
        try:
            await identify_until_known(client, self._come_in)
        except Exception as error:
            if self._failed is not None and not self._failed.done():
                self._failed.set_exception(error)

    async def _come_in(self, workspace: Workspace) -> None:
        """Build the parts that need to know who we are, and open the doors. Raises SlackError, too."""
        client, settings = self._client, self.settings
        if client is None:
            return
        directory = Directory(client, workspace.team_id, workspace.bot_user_id)
        await self._find_channels(client, directory)
        permalinks = Permalinks(client)
        ctx = ListenerContext(
            db=self.db,
            directory=directory,
            client=client,
            services=self._services,
            votes=self._votes,
            homes=AppHomes(self.db, directory, client, permalinks),
            permalinks=permalinks,
            invitation=partial(link_for, settings.public_url) if settings.public_url else None,
        )
        bolt = new_app(
            client, team_id=workspace.team_id, bot_user_id=workspace.bot_user_id, bot_id=workspace.bot_id
        )
        register(bolt, ctx)
        listens = Role.WEB in settings.roles
        sockets = edge = None
        if listens and settings.slack_app_token:
            sockets = SocketMode(bolt, settings.slack_app_token.get_secret_value(), settings.slack_api_url)
        elif listens and settings.slack_signing_secret:
            edge = SignedEndpoint(bolt, settings.slack_signing_secret.get_secret_value())
        admin = self.policy.defaults.admin_channel
        drain = Drain(
            self.db,
            client,
            directory,
            self.name,
            admin=Destination(workspace.team_id, self._channels[admin]) if admin else None,
            cards_per_minute=self.policy.defaults.cards_per_minute,
        )
        poller = DeliveryPoller(self.db, workspace.team_id, drain)
        self._slack = Slack(workspace, directory, ctx, edge, sockets, drain, poller)
        if sockets is not None:
            await sockets.start()
        if Role.WORKER in settings.roles:
            poller.start()
        log.info(
            "connected to Slack", action="slack.connected", team=workspace.team, team_id=workspace.team_id
        )

    async def _find_channels(self, client: SlackClient, directory: Directory) -> None:
        """Names of channels become ids; a channel that does not exist could hide a request from everybody."""
        named = {rule.channel: f"{self.settings.checkpoints}" for rule in self.policy.rules}
        named[self.policy.defaults.channel] = f"{self.settings.checkpoints}"
        named[self.policy.defaults.admin_channel] = f"{self.settings.checkpoints}"
        named[self.settings.channel] = "SIGNOFF_CHANNEL"
        for name, where in named.items():
            if name:
                try:
                    self._channels[name] = await find_channel(client, directory, name)
                except NotFound as error:
                    raise SignoffError(f"{where}: {error}") from None

    def _destination(self, channel: str | None) -> Destination:
        """Where a rule's card goes. Raises NotConnected until Slack has told us who we are."""
        if self._slack is None:
            raise NotConnected("Slack has not been reached yet, so nobody can be asked")
        name = channel or self.policy.defaults.channel or self.settings.channel
        if name is None or name not in self._channels:
            raise NotConnected(f"no channel for requests ({name})")
        return Destination(self._slack.workspace.team_id, self._channels[name])

    def _notify(self, target: str) -> None:
        """What the executor does about notices that are due."""
        self._outbound.found(target)

    # --- HTTP -----------------------------------------------------------------------------------------

    def _web_context(self) -> WebContext:
        return WebContext(
            db=self.db,
            services=self._services,
            votes=self._votes,
            slack_or_none=self._connected,
            watch=self._watch,
            public_url=self.settings.public_url,
            openid=_openid(self.settings),
            webhook_networks=self.settings.webhook_networks,
        )

    def _connected(self) -> SlackConnection | None:
        if self._slack is None or self._client is None:
            return None
        ctx = self._slack.ctx
        return SlackConnection(self._slack.workspace.team_id, ctx.directory, self._client, ctx.permalinks)

    def _routes(self) -> list[BaseRoute]:
        return [
            Route(EVENTS_PATH, self._events, methods=["POST"]),
            *health_routes(self.check, self._metrics.exposition),
        ]

    async def _events(self, request: Request) -> Response:
        """Slack's requests, once we know who we are; until then Slack is told to come back."""
        if self._slack is None:
            return PlainTextResponse("", status_code=503)
        if self._slack.edge is None:
            return PlainTextResponse("", status_code=404)
        return await self._slack.edge.handle(request)

    async def check(self) -> tuple[bool, Mapping[str, Any]]:
        """Readiness (database and schema), and how every part is."""
        database = await self._check_database()
        parts = {
            "database": database,
            "slack": self._slack_health(),
            "model": self._model_health(),
            "worker": self._working(),
            "scheduler_age": self._scheduler.age if Role.SCHEDULER in self.settings.roles else None,
            "draining": self._draining,
            **(await self._metrics.told() if database == "ok" else {}),
        }
        return database == "ok" and not self._draining, parts

    def _working(self) -> bool | None:
        """Whether what is due is found, and every channel looked after; ``None`` where neither is our part."""
        if Role.WORKER not in self.settings.roles:
            return None
        return self._executor.alive and (self._slack is None or self._slack.poller.alive)

    def _part(self) -> ProcessPart:
        roles = self.settings.roles
        return ProcessPart(
            draining=self._draining,
            slack=self._slack_health() == "connected",
            worker=self._working(),
            scheduler_age=self._scheduler.age if Role.SCHEDULER in roles else None,
        )

    async def _check_database(self) -> str:
        try:
            async with asyncio.timeout(2), self.db.connection() as connection:
                found, oldest = await views.schema_version(connection)
        except Exception as error:  # whatever it is: not ready, and that is the answer
            return str(error).splitlines()[0] if str(error) else "does not answer"
        if migrations.is_compatible(found, oldest):
            return "ok"
        return f"its schema is at {found or 'nothing'}, not {migrations.head()}"

    def _slack_health(self) -> str:
        if self._client is None:
            return "not configured"
        if self._slack is None:
            return "unreachable"
        if self._slack.sockets is not None and not self._slack.sockets.health.connected:
            return "socket closed"
        return self._slack.drain.problem or "connected"

    def _model_health(self) -> str:
        return self._model.last_problem or "ok"


async def _nothing() -> None:
    """What a process does that has no part to stop."""


def _client(settings: Settings) -> SlackClient | None:
    token = settings.slack_bot_token
    return SlackClient(token.get_secret_value(), settings.slack_api_url) if token else None


def _openid(settings: Settings) -> OpenID | None:
    name, secret = settings.slack_client_id, settings.slack_client_secret
    return OpenID.at(settings.slack_api_url, name, secret) if name and secret else None


def _mailer(settings: Settings) -> Mailer | None:
    if settings.smtp_url is None or settings.smtp_from is None:
        return None
    return Mailer(MailServer.read(settings.smtp_url.get_secret_value()), settings.smtp_from)


def _model(settings: Settings) -> Model:
    key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else KEYLESS
    return Model(settings.model, api_key=key, base_url=settings.openai_base_url)

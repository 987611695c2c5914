"""The composition root: builds, starts and stops all parts of a process.

Parts that one role alone has are imported with that role: without `web`, FastAPI, the pages and Bolt take 30 MB, and
without `scheduler`, the timer takes one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import structlog

from agent.database.background import start_task
from agent.database.pools import Database
from agent.domain.errors import OutdatedPolicy
from agent.domain.policy import Policy
from agent.runtime.agents import Registry
from agent.runtime.executor import Executor
from agent.runtime.heartbeat import Heartbeat
from agent.runtime.immediate_claims import process_votes
from agent.runtime.model import Model
from agent.runtime.policy_in_force import PolicyInForce
from agent.runtime.services import Services, worker_name
from agent.runtime.user_code import UserCode
from agent.store import views
from agent.usecases import policy as policies
from agent.usecases import schedules
from signoff.errors import SignoffError
from slackbot.masking import NO_NAME, is_no_name
from slackbot.outbound.facts_lookup import FactsLookups
from slackbot.outbound.mail import Mailer
from slackbot.outbound.mail_server import MailServer
from slackbot.outbound.sender import OutboundContext, OutboundSender
from slackbot.outbound.signed_post import WebhookPoster
from slackbot.reviewing import members
from slackbot.reviewing.grants import SlackGrantChecks
from slackbot.service.probe_write import WriteProbe
from slackbot.service.slack_service import SlackService
from slackbot.service.telemetry import Telemetry
from slackbot.settings import Role, Settings
from slackbot.web.http.health import health_application, health_routes
from slackbot.web.http.server import HttpServer
from slackbot.web.http.service_metrics import ProcessPart, ServiceMetrics

if TYPE_CHECKING:
    from slackbot.service.scheduler import Scheduler
    from slackbot.service.web_service import WebService

log = structlog.get_logger(__name__)

KEYLESS = "not-set"
"""The model client's key if none is set; local servers may need none."""

HEALTH_CONNECTIONS = 64

SPARE_THREADS = 32
"""Threads beyond one per call: for edits, and calls that outlived their timeout."""


class Service:
    """One process with its roles: call `start`, `run`, then `stop`.

    ``policy`` is from the checkpoints file; a database's first start puts it into force.
    """

    def __init__(self, settings: Settings, db: Database, policy: Policy, registry: Registry) -> None:
        if any(is_no_name(agent.name) for agent in registry):
            raise SignoffError(f"the name of an agent {NO_NAME}")
        self.settings = settings
        self.db = db
        self._file = policy
        self._policies = PolicyInForce(db, policy, settings.read_policy)
        self.registry = registry
        self.name = worker_name()
        listens = _web().listen(settings, db, self._policies) if Role.WEB in settings.roles else None
        self.slack = SlackService(settings, db, self._policies, self.name, listens)
        self._model = _model(settings)
        secret = settings.facts_secret
        self._lookups = FactsLookups(secret.get_secret_value() if secret else None, settings.webhook_networks)
        self._services = Services(
            db=db,
            policies=self._policies,
            registry=registry,
            model=self._model,
            heartbeat=Heartbeat(db, self.name),
            worker=self.name,
            destination=self.slack.destination,
            grant_checks=SlackGrantChecks(self.slack.connection),
            check_member=partial(members.check_connected, self.slack.connection),
            user_code=UserCode(threads=settings.concurrency + SPARE_THREADS),
            look_up=self._lookups.look_up,
        )
        self._executor = Executor(
            self._services,
            self._notify,
            concurrency=settings.concurrency,
            drain_seconds=settings.drain_seconds,
        )
        self._votes = process_votes(
            self._services, self._executor.calls if Role.WORKER in settings.roles else None
        )
        ctx = OutboundContext(db, self.slack.connection, settings.public_url)
        self._outbound = OutboundSender(ctx, WebhookPoster(settings.webhook_networks), _mailer(settings))
        self._writes = WriteProbe(db)
        self._metrics = ServiceMetrics(db, self._part, lambda: self._policies.last_loaded.limits)
        self._web: WebService | None = None
        if Role.WEB in settings.roles:
            health = health_routes(self.check, self._metrics.exposition)
            self._web = _web().WebService(settings, db, self._services, self._votes, self.slack, health)
        self._health = HttpServer(
            health_application(self.check, self._metrics.exposition),
            host=settings.host,
            port=settings.health_port or 0,
            setting="SIGNOFF_HEALTH_PORT",
            drain_seconds=1,
            most=HEALTH_CONNECTIONS,
        )
        self._draining = False
        self._scheduler = self._new_scheduler() if Role.SCHEDULER in settings.roles else None
        self._telemetry: Telemetry | None = None
        self._failed: asyncio.Future[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def web(self) -> WebService:
        """Only with the role `web`."""
        if self._web is None:
            raise AttributeError("this process has not the role web")
        return self._web

    @property
    def health_port(self) -> int | None:
        return self._health.port

    @property
    def port(self) -> int | None:
        return self._web.http.port if self._web else None

    async def start(self) -> None:
        """Start every part, even while Slack is unreachable.

        Raises SignoffError when a part can never work: a token that Slack rejects, a missing channel.
        """
        self._failed = asyncio.get_running_loop().create_future()
        await self.db.open()
        self._telemetry = Telemetry.of(self.db, self.name)
        if self._telemetry is not None:
            self._telemetry.start()
        self._services.user_code.watchdog.watch(
            asyncio.get_running_loop(), threading.current_thread(), "service"
        )
        await self._load_policy()
        await self._writes.start()
        if self.settings.health_port is not None:
            await self._health.start()
        if self._web is not None:
            await self._web.start()
        await self.slack.start(self._services, self._votes, self._failed)
        if Role.WORKER in self.settings.roles:
            await self._executor.start()
        if self._scheduler is not None:
            self._scheduler.start()
        log.info(
            "started",
            action="service.started",
            worker=self.name,
            roles=sorted(self.settings.roles),
            port=self.port,
            health_port=self.health_port,
            database_connections=self._connections(),
            http_connections=self._web.places.most if self._web else None,
        )

    async def _load_policy(self) -> None:
        stored = await policies.put_first(self.db, self._file, by=f"worker:{self.name}")
        with suppress(OutdatedPolicy):  # already logged; votes count and messages are sent
            await self._policies.load()
            if self._policies.policy.digest != self._file.digest:
                log.warning(
                    "the file is not the policy in force and is not used; `signoff policy apply` puts it into force",
                    action="policy.file_differs",
                    file=str(self.settings.checkpoints),
                    epoch=stored.epoch,
                    applied_by=stored.by,
                )
        self._follow(self._policies.last_loaded)
        self._policies.on_change(self._follow)
        if Role.WORKER not in self.settings.roles:
            self._watching = start_task(self._policies.watch(), "policy")

    def _follow(self, policy: Policy) -> None:
        if self._scheduler is not None:
            self._scheduler.policy = policy
        self.slack.follow()

    def _connections(self) -> int:
        """The maximum, including those that listen."""
        own = self._executor.connections if Role.WORKER in self.settings.roles else 0
        return sum(pool.most for pool in self.db.pools()) + own + self.slack.connections

    async def run(self) -> None:
        """Raises SignoffError when a part can never work."""
        if self._failed is not None:
            await self._failed

    async def stop(self) -> None:
        """Running work may finish within the drain time."""
        log.info("stopping", action="service.stopping", worker=self.name)
        self._draining = True
        if self._scheduler is not None:
            self._scheduler.stop()
        await self.slack.stop_connecting()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        working = asyncio.gather(
            self._executor.stop() if Role.WORKER in self.settings.roles else _nothing(),
            self.slack.stop_delivering(),
        )
        if self._web is not None:
            # Requests arrive until the load balancer has noticed.
            await asyncio.sleep(self.settings.pre_stop_seconds)
            await self.slack.stop_listening()
            await self._web.stop()
            await self._votes.finish()
            await self._web.watch.stop()
        await working
        await self._outbound.stop(self.settings.drain_seconds)
        await self._lookups.close()
        await self.slack.finish()
        await self._services.user_code.stop()
        await self._model.close()
        await self.slack.close()
        await self._health.stop()
        await self._writes.stop()
        if self._telemetry is not None:
            await self._telemetry.stop()
        await self.db.close()

    def _notify(self, target: str) -> None:
        self._outbound.found(target)

    def _new_scheduler(self) -> Scheduler:
        from slackbot.service.scheduled_starts import ScheduledStarts  # noqa: PLC0415 - with the role
        from slackbot.service.scheduler import Scheduler  # noqa: PLC0415

        starts = ScheduledStarts(self._services, self.slack.connection)
        return Scheduler(
            self.db,
            self._file,
            self.slack.admin,
            due={"schedules": starts.sweep},
            timed={
                "reviewers": (self.slack.check_reviewers, 60.0),
                "deleted_cards": (self.slack.find_deleted_cards, 60.0),
            },
        )

    async def check(self) -> tuple[bool, Mapping[str, Any]]:
        """Readiness (database and schema), and each component's health."""
        database = await self._check_database()
        ready = database == "ok" and self._writes.problem is None and not self._draining
        parts = {
            "database": self._writes.problem or database if database == "ok" else database,
            "slack": self.slack.health,
            "model": self._model_health(),
            "worker": self._working(),
            "scheduler_age": self._scheduler.age if self._scheduler else None,
            "policy": self._policies.problem or f"epoch {self._policies.seen}",
            "schedules": await self._scheduled() if database == "ok" else None,
            "draining": self._draining,
            **(await self._metrics.summary() if database == "ok" else {}),
        }
        return ready, parts

    async def _scheduled(self) -> str | None:
        """Whether every schedule's agent is loaded here; ``None`` without that role."""
        if Role.SCHEDULER not in self.settings.roles:
            return None
        unknown = await schedules.unknown_agents(self.db, [agent.name for agent in self.registry])
        return f"no such agents: {', '.join(unknown)}" if unknown else "ok"

    def _working(self) -> bool | None:
        """``None`` without these roles."""
        if Role.WORKER not in self.settings.roles:
            return None
        return self._executor.alive and self.slack.delivers

    def _part(self) -> ProcessPart:
        return ProcessPart(
            draining=self._draining,
            slack=self.slack.health == "connected",
            worker=self._working(),
            scheduler_age=self._scheduler.age if self._scheduler else None,
            web=self._web.http.alive and not self._draining if self._web else None,
            writes=self._writes.problem is None,
        )

    async def _check_database(self) -> str:
        try:
            async with asyncio.timeout(2), self.db.connection() as connection:
                found = await views.schema_version(connection)
        except Exception as error:  # any error means: not ready
            return str(error).splitlines()[0] if str(error) else "does not answer"
        return found.problem() or "ok"

    def _model_health(self) -> str:
        return self._model.last_problem or "ok"


async def _nothing() -> None:
    """Work of a process that has nothing to stop."""


def _web() -> ModuleType:
    """The parts of the role `web`."""
    from slackbot.service import web_service  # noqa: PLC0415 - with the role

    return web_service


def _mailer(settings: Settings) -> Mailer | None:
    if settings.smtp_url is None or settings.smtp_from is None:
        return None
    return Mailer(MailServer.read(settings.smtp_url.get_secret_value()), settings.smtp_from)


def _model(settings: Settings) -> Model:
    key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else KEYLESS
    return Model(settings.model, api_key=key, base_url=settings.openai_base_url)

"""`signoff serve`: run the service."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from typing import TYPE_CHECKING, Annotated

import structlog
import typer
from uvloop import new_event_loop

from agent.database.pools import Database
from agent.domain.policy import Policy
from agent.runtime.agents import Registry, load_agents
from slackbot.cli.cli_context import (
    EmbeddedFlag,
    check_channels,
    check_schema,
    database_url,
    read_policy,
    read_settings,
)
from slackbot.service import open_files
from slackbot.settings import Role, Settings, SettingsError

log = structlog.get_logger(__name__)

SWITCH = 0.0005
"""Seconds until a busy event loop yields to threads; with Python's default, the secret scan takes ten times as
long."""

FULL_EVERY = 200
"""Younger collections (default: ten) per full one, which with thousands of waiting clients takes half a second and
finds almost nothing."""

if TYPE_CHECKING:
    from slackbot.app import Service


def serve(
    use_embedded: EmbeddedFlag = False,
    roles: Annotated[
        str | None, typer.Option(help="A comma-separated list of web, worker, scheduler; all by default.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="The port to listen on for HTTP.", min=0, max=65535)
    ] = None,
) -> None:
    """Run the service: Slack, agents and scheduler, or only some of these roles."""
    gc.disable()  # until it is ready: what it imports and builds stays
    limit = open_files.raise_limit()
    configured = read_settings(roles=roles, port=port)
    policy, registry = read_policy(configured), load_agents(configured.agents)
    _check_complete(configured, policy, use_embedded)
    _warn(configured, registry, limit)
    with database_url(configured, use_embedded) as url:
        check_schema(configured, url)
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(configured, url, policy, registry))


async def _serve(configured: Settings, url: str, policy: Policy, registry: Registry) -> None:
    from slackbot.app import Service  # noqa: PLC0415 - Bolt and OpenAI's client take a second to import

    service = Service(configured, _database(configured, url), policy, registry)
    living = asyncio.create_task(_live(service, configured))
    loop = asyncio.get_running_loop()
    for stop in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(stop, living.cancel)
    try:
        await living
    except asyncio.CancelledError:
        pass
    finally:
        for stop in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(stop)  # a second signal means: do not wait
        await service.stop()


async def _live(service: Service, configured: Settings) -> None:
    await service.start()
    sys.setswitchinterval(SWITCH)
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, FULL_EVERY)
    # Exclude what there is from later collections, which would pause clicks. Some thousand objects of it are garbage:
    # to find them takes a sixth of a second before the first answer, and gives no memory back.
    gc.freeze()
    gc.enable()
    if service.port is not None:
        typer.echo(f"signoff is listening on http://{configured.host}:{service.port}", err=True)
    await service.run()


def _database(configured: Settings, url: str) -> Database:
    return Database(
        url,
        configured.db_schema,
        configured.db_role,
        announces=True,
    )


def _warn(configured: Settings, registry: Registry, limit: int) -> None:
    for name in configured.unknown:
        log.warning("no such setting; it is ignored", action="settings.unknown", name=name)
    if not list(registry) and configured.roles != {Role.SCHEDULER}:
        log.warning(
            "no agents are loaded, so nothing can be started and waiting runs cannot continue: "
            "name their modules in SIGNOFF_AGENTS",
            action="agents.none",
        )
    if short := open_files.shortage(configured, limit):
        log.warning(short, action="open_files.few", limit=limit, wanted=open_files.ENOUGH)


def _check_complete(configured: Settings, policy: Policy, use_embedded: bool) -> None:
    """Raises SettingsError with a line for each missing setting."""
    problems = []
    if configured.database_url is None and not use_embedded:
        problems.append("no database: set DATABASE_URL, or start with --embedded, which brings its own")
    if configured.slack_bot_token is None:
        problems.append("SLACK_BOT_TOKEN is not set (xoxb-…, from your Slack app's page)")
    elif (
        Role.WEB in configured.roles
        and not configured.socket_mode
        and configured.slack_signing_secret is None
    ):
        problems.append("set SLACK_APP_TOKEN for Socket Mode, or SLACK_SIGNING_SECRET for HTTP")
    try:
        check_channels(configured, policy)
    except SettingsError as error:
        problems += error.problems
    if problems:
        raise SettingsError([*problems, *(f"there is no setting {name}" for name in configured.unknown)])

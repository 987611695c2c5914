"""A demo's parts, started in order and stopped in reverse."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from agent.database import embedded_server, migrations
from agent.database.pools import Database
from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from signoff.errors import SignoffError
from signoff.values import Person
from signoff_demo import model as models
from signoff_demo.actors import ADA
from signoff_demo.examples import shop
from signoff_demo.guide import CRASH, REPLAY, Guide, welcome
from signoff_demo.replay import try_policy
from signoff_demo.rules import REVIEWS, DemoPolicy
from signoff_demo.sandbox import SandboxWorkspace, SlackSandbox
from signoff_demo.sandbox.model import MODEL_NAME
from signoff_demo.service import ServiceProcess, environment
from signoff_demo.workdir import Workdir

T = TypeVar("T")
Tell = Callable[[str], None]

TOUR_AGENTS = ", ".join(
    f"signoff_demo.examples.{each}" for each in ("refunds", "data_manager", "durable_task", "questions")
)
DATABASE = "signoff_demo"
FIRST_START_SECONDS = 120.0  # also compiles every module
PORTS_TRIED = 20


@dataclass(frozen=True)
class DemoEnvironment:
    """`settings` are the service's, secrets included."""

    workdir: Workdir
    rules: DemoPolicy
    slack: SlackSandbox
    guide: Guide
    service: ServiceProcess
    database_url: str
    settings: Mapping[str, str]
    _supervision: asyncio.Task[None]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.settings['SIGNOFF_PORT']}"

    async def new_key(self) -> str:
        ada = Person(self.slack.workspace.team.id, ADA)
        async with Database(self.database_url) as database:
            return await api_keys.create(database, "demo", [Scope.REQUEST], by="demo", owner=ada)

    async def while_running(self, work: Awaitable[T]) -> T:
        """Raises ServiceFailed once the service cannot be restarted."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self._supervision}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                self._supervision.result()
            return await task
        finally:
            task.cancel()


@asynccontextmanager
async def open_environment(
    workdir: Workdir,
    rules: DemoPolicy,
    workspace: SandboxWorkspace,
    guide: Guide,
    tell: Tell,
    *,
    port: int,
    agents: str | None = None,
    model: Mapping[str, str] | None = None,
) -> AsyncIterator[DemoEnvironment]:
    """Start database, sandbox, model and service. Raises SignoffError.

    `agents`: modules of the current folder. `model`: a real model's settings.
    """
    async with AsyncExitStack() as stack:
        url = _database(stack, workdir, tell)
        if agents is None:
            os.environ["SIGNOFF_SHOP_URL"] = url  # this process also reads the orders there
            stack.callback(os.environ.pop, "SIGNOFF_SHOP_URL", None)
            await shop.setup(fresh=True)
        welcome(workspace)
        slack = await stack.enter_async_context(_sandbox(workspace, guide, port, tell))
        if model is None:
            model = await stack.enter_async_context(models.scripted())
            tell(f"scripted model ({MODEL_NAME}): rules, not a language model")
        else:
            tell(f"model {model['SIGNOFF_MODEL']} of your provider")
        workdir.checkpoints.write_text(rules.text, encoding="utf-8")
        workdir.log.write_bytes(b"")
        settings = _settings(workdir, slack, url, _hold_port(stack, 8080, tell)) | {
            **model,
            "SIGNOFF_AGENTS": agents or TOUR_AGENTS,
            "SIGNOFF_CHANNEL": REVIEWS if agents else "#refund-reviews",
        }
        service = ServiceProcess(
            workdir,
            environment(os.environ, settings, Path.cwd() if agents else None),
            lambda: slack.wait_for(lambda: slack.sockets.connections, timeout=FIRST_START_SECONDS),
            tell,
        )
        slack.levers[CRASH] = lambda: _crash(service)
        slack.levers[REPLAY] = lambda: try_policy(workdir, rules, slack.workspace, settings)
        supervision = asyncio.create_task(service.supervise(), name="service")
        stack.push_async_callback(_end, supervision)
        env = DemoEnvironment(workdir, rules, slack, guide, service, url, settings, supervision)
        await env.while_running(service.ready.wait())
        yield env


def _crash(service: ServiceProcess) -> str:
    try:
        return (
            f"Process {service.kill()} was killed (kill -9). It is restarted and continues where it stopped."
        )
    except ProcessLookupError:
        return "It is already down and is being restarted."


def _database(stack: AsyncExitStack, workdir: Workdir, tell: Tell) -> str:
    """Blocks: an interrupted start would leave a server behind."""
    if not workdir.postgres.exists():
        tell("first start: creating a database in " + str(workdir.postgres))
    server = embedded_server.start(workdir.postgres)
    stack.callback(server.stop)
    url = server.fresh_database(DATABASE)
    migrations.upgrade(url)
    tell("PostgreSQL, embedded, with an empty database")
    return url


def _settings(workdir: Workdir, slack: SlackSandbox, url: str, port: int) -> dict[str, str]:
    return {
        "DATABASE_URL": url,
        "SLACK_BOT_TOKEN": slack.bot_token,
        "SLACK_APP_TOKEN": slack.app_token,
        "SLACK_API_URL": slack.api_url,
        "SIGNOFF_CHECKPOINTS": str(workdir.checkpoints),
        "SIGNOFF_HOST": "127.0.0.1",
        "SIGNOFF_PORT": str(port),
        "SIGNOFF_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "SIGNOFF_DRAIN_SECONDS": "1",
        "SIGNOFF_WEBHOOK_NETWORKS": "127.0.0.0/8",  # programs beside the demo are on this machine
    }


@asynccontextmanager
async def _sandbox(
    workspace: SandboxWorkspace, guide: Guide, port: int, tell: Tell
) -> AsyncIterator[SlackSandbox]:
    """Use this port or the next free one."""
    for wanted in range(port, port + PORTS_TRIED) if port else (0,):
        slack = SlackSandbox(workspace, port=wanted, guide=guide)
        try:
            await slack.start()
        except OSError as error:
            await slack.stop()
            if error.errno != errno.EADDRINUSE:
                raise SignoffError(f"cannot listen on port {wanted}: {error.strerror}") from None
            continue
        if port and slack.port != port:
            tell(f"port {port} is taken; the page is on {slack.port}")
        try:
            yield slack
        finally:
            await slack.stop()
        return
    raise SignoffError(f"ports {port} to {port + PORTS_TRIED - 1} are all taken; choose another with --port")


def _hold_port(stack: AsyncExitStack, first: int, tell: Tell) -> int:
    """Reserve a port for the service's HTTP across restarts."""
    for port in (*range(first, first + PORTS_TRIED), 0):
        with suppress(OSError):
            with socket.socket() as probe:  # also fails if another demo holds it
                probe.bind(("127.0.0.1", port))
                found = int(probe.getsockname()[1])
            holder = stack.enter_context(socket.socket())
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # lets the service listen there
            holder.bind(("127.0.0.1", found))
            if found != first:
                tell(f"port {first} is taken; the API and the inbox page are on {found}")
            return found
    raise SignoffError("no free port on 127.0.0.1")


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

"""The command `signoff`. What a person did wrong is said in one line, without a traceback, with exit code 2."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agent import record
from agent.domain import checkpoints
from agent.domain.errors import PolicyError, SignoffError
from agent.domain.policy import Policy
from agent.runtime.agents import Registry, load_agents
from agent.store import embedded, location, migrations
from agent.store.database import Database
from slackbot import logs, settings, starter
from slackbot.secrets import clean_now, guard_tracebacks
from slackbot.settings import Role, Settings, SettingsError

cli = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Approvals in Slack for AI agents: an agent asks, a person clicks, the agent goes on, once.",
)
db = typer.Typer(no_args_is_help=True, help="The database: migrate it, or ask where it stands.")
audit = typer.Typer(no_args_is_help=True, help="The record of what happened.")
cli.add_typer(db, name="db")
cli.add_typer(audit, name="audit")

if TYPE_CHECKING:
    from slackbot.app import Service

EmbeddedFlag = Annotated[
    bool, typer.Option("--embedded", help="Use an embedded PostgreSQL with its data in .signoff/.")
]

WRONG = 2


def main() -> None:
    """The console script."""
    sys.path.insert(0, str(Path.cwd()))  # so that SIGNOFF_AGENTS finds modules of the current folder
    guard_tracebacks()
    try:
        cli(prog_name="signoff")
    except (SignoffError, embedded.EmbeddedServerError) as error:
        _fail(error)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


@cli.command()
def serve(
    use_embedded: EmbeddedFlag = False,
    roles: Annotated[str | None, typer.Option(help="Any of web,worker,scheduler; all by default.")] = None,
    port: Annotated[int | None, typer.Option(help="Where to listen for HTTP.", min=0, max=65535)] = None,
) -> None:
    """Run the service: Slack's front door, the workers and the scheduler, or some of them."""
    configured = _settings(roles=roles, port=port)
    policy, registry = _policy(configured), load_agents(configured.agents)
    _check_complete(configured, policy, use_embedded)
    with _database_url(configured, use_embedded) as url:
        _check_schema(configured, url)
        asyncio.run(_serve(configured, url, policy, registry))


@cli.command()
def check() -> None:
    """Check the settings, the checkpoints file and the agents; list which rule catches each tool."""
    configured = _settings()
    policy, registry = _policy(configured), load_agents(configured.agents)
    table = Table(
        "agent", "tool", "what happens to a call", title=f"{configured.checkpoints}", title_justify="left"
    )
    for agent in registry:
        for tool in agent.tools:
            fate = checkpoints.explain(policy, tool.traits).removeprefix(f"{tool.name}: ")
            table.add_row(agent.name, tool.name, fate)
    Console().print(
        table if table.row_count else "no agents are loaded: name their modules in SIGNOFF_AGENTS"
    )
    typer.echo(f"policy digest {policy.digest.hex()}")


@cli.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Where to put the files.")] = Path(),
) -> None:
    """Write a ten-line example agent, a checkpoints file and an .env template."""
    for written in starter.write(folder):
        typer.echo(f"wrote {written}")
    typer.echo("\nTry it at once, in a local sandbox:  signoff demo --agents my_agents")
    typer.echo("For a real workspace: copy .env.example to .env and fill it in; `signoff check` reads it.")


@cli.command()
def demo(
    auto: Annotated[
        bool, typer.Option("--auto", help="Play the main job by itself, print it, and exit.")
    ] = False,
    agents: Annotated[
        str | None, typer.Option(help="Modules with your own agents, instead of the tour's.")
    ] = None,
    port: Annotated[int, typer.Option(help="Where the sandbox's page is.", min=0, max=65535)] = 8765,
) -> None:
    """The main job in a local sandbox: a stand-in for Slack, a scripted model, an embedded database."""
    from slackbot.demo import run_demo  # noqa: PLC0415 - only this command knows the sandbox

    raise SystemExit(run_demo(auto=auto, agents=agents, port=port))


@cli.command()
def doctor(use_embedded: EmbeddedFlag = False) -> None:
    """Look whether everything is there that the service needs, and say what mends it; exit code 1 if not."""
    configured = _settings()
    policy = _policy(configured)
    url = configured.database_url
    if url is None and not use_embedded:
        raise SystemExit(asyncio.run(_examine(configured, policy, None)))
    with _database_url(configured, use_embedded) as address:
        raise SystemExit(asyncio.run(_examine(configured, policy, address)))


@cli.command()
def manifest(
    url: Annotated[
        str | None, typer.Option(help="Our public https address, for HTTP instead of Socket Mode.")
    ] = None,
) -> None:
    """Print the manifest to create the Slack app from; SIGNOFF_PUBLIC_URL is the address where none is given."""
    from slackbot import manifest as slack_manifest  # noqa: PLC0415 - it knows the web edge, and so Bolt

    configured = _settings()
    known = None if configured.socket_mode else configured.public_url
    typer.echo(slack_manifest.render(url or known), nl=False)


@db.command("upgrade")
def db_upgrade(use_embedded: EmbeddedFlag = False) -> None:
    """Bring the database's schema up to date."""
    configured = _settings()
    with _database_url(configured, use_embedded, migrate=False) as url:
        owner = configured.owner_url.get_secret_value() if configured.owner_url else None
        migrations.upgrade(url, configured.db_schema, owner_url=owner, role=configured.db_role)
        typer.echo(f"schema {configured.db_schema!r} is at revision {migrations.head()}")


@db.command("current")
def db_current(use_embedded: EmbeddedFlag = False) -> None:
    """Tell which revision the schema is at, and which one this version needs."""
    configured = _settings()
    with _database_url(configured, use_embedded, migrate=False) as url:
        found = migrations.current(url, configured.db_schema, role=configured.db_role)
    typer.echo(f"at {found or 'nothing'}, needs {migrations.head()}")


@audit.command("verify")
def audit_verify(use_embedded: EmbeddedFlag = False) -> None:
    """Verify every chain of the record; exit code 1 when one does not hold."""
    configured = _settings()
    with _database_url(configured, use_embedded, migrate=False) as url:
        _check_schema(configured, url)
        events, problems = asyncio.run(_verify(configured, url))
    for problem in problems:
        typer.echo(clean_now(str(problem)), err=True)
    typer.echo(f"{events} events verified, {len(problems)} problems")
    raise SystemExit(1 if problems else 0)


# --- parts ------------------------------------------------------------------------------------------------


async def _serve(configured: Settings, url: str, policy: Policy, registry: Registry) -> None:
    from slackbot.app import Service  # noqa: PLC0415 - Bolt and OpenAI's client take a second that only serve owes

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
            loop.remove_signal_handler(stop)  # whoever asks twice does not want to wait
        await service.stop()


async def _live(service: Service, configured: Settings) -> None:
    await service.start()
    if service.port is not None:
        typer.echo(f"signoff is listening on http://{configured.host}:{service.port}", err=True)
    await service.run()


async def _examine(configured: Settings, policy: Policy, url: str | None) -> int:
    """Tell each finding as it comes. Returns the exit code."""
    from slackbot import doctor as doctoring  # noqa: PLC0415 - OpenAI's client takes a second that only this owes

    database = _database(configured, url) if url else None
    console, sick = Console(soft_wrap=True), 0
    try:
        async for finding in doctoring.examine(configured, policy, database, url):
            mark = "[green]✓[/]" if finding.well else "[red]✗[/]"
            console.print(f"{mark} [bold]{escape(finding.part)}[/]: {escape(clean_now(finding.told))}")
            if not finding.well:
                sick += 1
                console.print(f"    → {escape(finding.remedy)}")
    finally:
        if database is not None:
            await database.close()
    return 1 if sick else 0


async def _verify(configured: Settings, url: str) -> tuple[int, list[record.Problem]]:
    async with _database(configured, url) as database:
        return await record.problems(database)


def _database(configured: Settings, url: str) -> Database:
    return Database(
        url,
        configured.db_schema,
        configured.db_role,
        pool_size=max(10, configured.concurrency // 2),
    )


def _settings(**overrides: str | int | None) -> Settings:
    given = {f"SIGNOFF_{name.upper()}": str(value) for name, value in overrides.items() if value is not None}
    configured = settings.read(extra=given)
    logs.configure(configured.log_level, configured.log_format)
    return configured


def _policy(configured: Settings) -> Policy:
    path = configured.checkpoints
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SettingsError(
            [f"SIGNOFF_CHECKPOINTS: there is no file {path} (`signoff init` writes one)"]
        ) from None
    except (OSError, UnicodeError) as error:
        raise SettingsError([f"SIGNOFF_CHECKPOINTS: cannot read {path}: {error}"]) from None
    return checkpoints.load(text, filename=path.name)


def _check_schema(configured: Settings, url: str) -> None:
    if migrations.pending(url, configured.db_schema, role=configured.db_role):
        raise SignoffError("the database's schema is not current: run `signoff db upgrade` first")


def _check_complete(configured: Settings, policy: Policy, use_embedded: bool) -> None:
    """What `serve` cannot do without. Raises SettingsError with a line for each."""
    problems = []
    if configured.database_url is None and not use_embedded:
        problems.append("no database: set DATABASE_URL, or start with --embedded for one of its own")
    if configured.slack_bot_token is None:
        problems.append("SLACK_BOT_TOKEN is not set (xoxb-…, from your Slack app's page)")
    elif (
        Role.WEB in configured.roles
        and not configured.socket_mode
        and configured.slack_signing_secret is None
    ):
        problems.append("set SLACK_APP_TOKEN for Socket Mode, or SLACK_SIGNING_SECRET for HTTP")
    everywhere = all(rule.channel for rule in policy.rules) and policy.defaults.channel
    if not everywhere and configured.channel is None:
        problems.append(
            f"no channel for requests: set SIGNOFF_CHANNEL, or channel in {configured.checkpoints}"
        )
    if problems:
        raise SettingsError(problems)


@contextmanager
def _database_url(configured: Settings, use_embedded: bool, *, migrate: bool = True) -> Iterator[str]:
    """The database to use; an embedded one is started, migrated and stopped with the command."""
    if not use_embedded:
        if configured.database_url is None:
            raise SettingsError(["no database: set DATABASE_URL, or use --embedded"])
        yield configured.database_url.get_secret_value()
        return
    server = embedded.start(location.data_home() / "postgres")
    try:
        if migrate:
            migrations.upgrade(server.url, configured.db_schema, role=configured.db_role)
        yield server.url
    finally:
        server.stop()


def _fail(error: Exception) -> NoReturn:
    lines = error.problems if isinstance(error, SettingsError | PolicyError) else [str(error)]
    for line in lines:
        print(f"signoff: {clean_now(line, assigned=False)}", file=sys.stderr)
    raise SystemExit(WRONG)

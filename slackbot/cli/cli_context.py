"""What commands share: settings, the policy file, and a database whose schema is current."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Concatenate, ParamSpec, TypeVar

import typer

from agent.database import embedded_server, locations, migrations
from agent.database.pools import Database
from agent.domain.policy import Policy
from signoff.errors import SignoffError
from slackbot import settings
from slackbot.service import logs
from slackbot.settings import Settings, SettingsError

P = ParamSpec("P")
T = TypeVar("T")

EmbeddedFlag = Annotated[
    bool, typer.Option("--embedded", help="Use an embedded PostgreSQL with its data in .signoff/.")
]


def read_settings(**overrides: str | int | None) -> Settings:
    """Set up logging, too. Raises SettingsError."""
    given = {f"SIGNOFF_{name.upper()}": str(value) for name, value in overrides.items() if value is not None}
    configured = settings.read(extra=given)
    logs.configure(configured.log_level, configured.log_format)
    return configured


def read_policy(configured: Settings) -> Policy:
    """Read the checkpoints file, as if applied now. Raises SettingsError (missing), PolicyError (invalid)."""
    return configured.read_policy(read_source(configured), configured.checkpoints.name, now=datetime.now(UTC))


def read_source(configured: Settings) -> str:
    """Raises SettingsError."""
    path = configured.checkpoints
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SettingsError(
            [f"SIGNOFF_CHECKPOINTS: there is no file {path} (`signoff init` writes one)"]
        ) from None
    except UnicodeError:
        raise SettingsError([f"SIGNOFF_CHECKPOINTS: {path} is not UTF-8; save it as UTF-8"]) from None
    except OSError as error:
        raise SettingsError([f"SIGNOFF_CHECKPOINTS: cannot read {path}: {error.strerror}"]) from None


def check_channels(configured: Settings, policy: Policy) -> None:
    """Raise SettingsError if a request could have no channel."""
    everywhere = all(rule.channel for rule in policy.rules) and policy.defaults.channel
    if not everywhere and configured.channel is None:
        raise SettingsError(
            [f"no channel for requests: set SIGNOFF_CHANNEL, or channel in {configured.checkpoints}"]
        )


@contextmanager
def database_url(configured: Settings, use_embedded: bool, *, migrate: bool = True) -> Iterator[str]:
    """An embedded server is started, migrated and stopped with the command."""
    if not use_embedded:
        if configured.database_url is None:
            raise SettingsError(["no database: set DATABASE_URL, or use --embedded"])
        yield configured.database_url.get_secret_value()
        return
    folder = locations.data_home() / "postgres"
    server = embedded_server.start(folder)
    try:
        if migrate:
            migrations.upgrade(server.url, configured.db_schema, role=configured.db_role)
        yield server.url
    except migrations.OtherLineage as error:
        raise error.in_folder(folder) from None
    finally:
        server.stop()


def check_schema(configured: Settings, url: str) -> None:
    """Raise SignoffError, with the command to run, if the schema is not current."""
    if migrations.pending(url, configured.db_schema, role=configured.db_role):
        raise SignoffError("the database's schema is not current: run `signoff db upgrade` first")


def open_database(configured: Settings, url: str) -> Database:
    """Open few connections."""
    return Database(
        url,
        configured.db_schema,
        configured.db_role,
        pool_size=2,
        application_name="signoff command",
        announces=True,
    )


def with_database(
    configured: Settings,
    use_embedded: bool,
    work: Callable[Concatenate[Database, P], Awaitable[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run work with a database whose schema is current.

    Raises what it raises, and SignoffError without such a database.
    """
    with database_url(configured, use_embedded) as url:
        return with_database_at(configured, url, work, *args, **kwargs)


def with_database_at(
    configured: Settings,
    url: str,
    work: Callable[Concatenate[Database, P], Awaitable[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run work with the database at this URL. Raises SignoffError if its schema is not current."""

    async def do() -> T:
        async with open_database(configured, url) as db:
            return await work(db, *args, **kwargs)

    check_schema(configured, url)
    return asyncio.run(do())

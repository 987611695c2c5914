"""`signoff db`: migrate the schema, or print its revision."""

from __future__ import annotations

import typer

from agent.database import migrations
from slackbot.cli.cli_context import EmbeddedFlag, database_url, read_settings

commands = typer.Typer(no_args_is_help=True, help="Migrate the database, or show its version.")


@commands.command()
def upgrade(use_embedded: EmbeddedFlag = False) -> None:
    """Bring the database's schema up to date."""
    configured = read_settings()
    with database_url(configured, use_embedded, migrate=False) as url:
        owner = configured.owner_url.get_secret_value() if configured.owner_url else None
        before = migrations.upgrade(url, configured.db_schema, owner_url=owner, role=configured.db_role)
    schema, now = f"schema {configured.db_schema!r}", migrations.head()
    if before == now:
        typer.echo(f"{schema} is at revision {now} already")
    else:
        typer.echo(f"{schema} is at revision {now} now, before at {before or 'nothing'}")


@commands.command()
def current(use_embedded: EmbeddedFlag = False) -> None:
    """Show the schema's revision, and the one that this version needs."""
    configured = read_settings()
    with database_url(configured, use_embedded, migrate=False) as url:
        found = migrations.inspect(url, configured.db_schema, role=configured.db_role)
    made = "" if found.is_of_this_lineage else ", made by another checkout"
    typer.echo(f"at {found.version or 'nothing'}{made}, needs {migrations.head()}")

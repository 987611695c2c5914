"""`signoff audit`: the record."""

from __future__ import annotations

import asyncio

import typer

from agent.usecases import audit as audit_log
from slackbot.cli.cli_context import EmbeddedFlag, check_schema, database_url, open_database, read_settings
from slackbot.masking import clean_now
from slackbot.settings import Settings

commands = typer.Typer(no_args_is_help=True, help="The record of what happened.")


@commands.callback()
def audit() -> None:
    """The record of what happened."""


@commands.command()
def verify(use_embedded: EmbeddedFlag = False) -> None:
    """Verify every chain of the record; exit code 1 when one does not hold."""
    configured = read_settings()
    with database_url(configured, use_embedded, migrate=False) as url:
        check_schema(configured, url)
        events, problems = asyncio.run(_verify(configured, url))
    for problem in problems:
        typer.echo(clean_now(str(problem)), err=True)
    typer.echo(f"{events} events verified, {len(problems)} problems")
    raise SystemExit(1 if problems else 0)


async def _verify(configured: Settings, url: str) -> tuple[int, list[audit_log.ChainProblem]]:
    async with open_database(configured, url) as database:
        return await audit_log.find_problems(database)

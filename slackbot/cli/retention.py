"""`signoff retention`: erase the content of what ended long ago."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from agent.database.pools import Database
from agent.usecases import retention as erasing
from agent.usecases.retention import ErasureCounts
from signoff.errors import SignoffError
from signoff.gate.options import duration
from slackbot.cli import terminal
from slackbot.cli.cli_context import EmbeddedFlag, check_schema, database_url, read_settings
from slackbot.settings import Settings


def retention(
    after: Annotated[str, typer.Option(help="The minimum time since the end: 90d.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would be erased, and stop.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation: for timers.")
    ] = False,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Erase the content of requests and runs that ended before a given age.

    Votes, decisions, digests and the audit log stay, and `signoff audit verify` still succeeds. Waiting, running or
    doubtful work is never touched. This cannot be undone. It needs the rights of the schema's owner: SIGNOFF_OWNER_URL,
    or DATABASE_URL if they are the same.
    """
    ago = duration("--after", after)
    configured = read_settings()
    with database_url(configured, use_embedded) as url:
        check_schema(configured, url)
        apart = None if use_embedded else configured.owner_url
        owner = apart.get_secret_value() if apart else url
        asyncio.run(_retain(configured, owner, ago, dry_run=dry_run, yes=yes))


async def _retain(configured: Settings, url: str, ago: timedelta, *, dry_run: bool, yes: bool) -> None:
    name = "signoff retention"
    async with Database(url, configured.db_schema, role=None, pool_size=2, application_name=name) as db:
        before = await erasing.cutoff(db, ago)
        due = await erasing.due(db, before)
        typer.echo(f"ended before {terminal.when(before)}: {_summary(due)}")
        if dry_run:
            return
        if due.total and not yes:
            if not sys.stdin.isatty():
                raise SignoffError("nothing was erased: confirm with --yes, or look first with --dry-run")
            typer.confirm("Erase this? It cannot be undone.", abort=True)
        erased = ErasureCounts()
        with _progress() as progress:
            task = progress.add_task("erasing", total=due.total)
            async for batch in erasing.erase(db, before, by=terminal.actor()):
                erased += batch
                progress.update(task, advance=batch.total)
        typer.echo(f"erased: {_summary(erased)}")
        if erased.broken:
            typer.echo(f"signoff: {erased.broken:,} could not be erased; their ids are in the log", err=True)
            raise typer.Exit(1)


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _summary(count: ErasureCounts) -> str:
    return (
        f"{count.runs:,} runs, {count.requests:,} requests, {count.deliveries:,} messages, "
        f"{count.notices:,} notices, {count.judgements:,} policy evaluations"
    )

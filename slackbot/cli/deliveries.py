"""`signoff deliveries`: messages that Slack refused; list and retry them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agent.database.pools import Database
from agent.domain.short_ids import short_id
from agent.store.undelivered import DeadMessage
from agent.usecases import undelivered
from signoff.errors import SignoffError
from slackbot.cli import terminal
from slackbot.cli.cli_context import EmbeddedFlag, read_settings, with_database
from slackbot.cli.list_by_default import ListByDefault
from slackbot.masking import clean_now

commands = typer.Typer(cls=ListByDefault, help="List messages to Slack that were given up, or retry them.")


@commands.command("list")
def list_dead(
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """List messages that were given up, newest first."""

    async def work(db: Database) -> Sequence[DeadMessage]:
        return await undelivered.list_dead(db, limit)

    found = with_database(read_settings(), use_embedded, work)
    console = Console(soft_wrap=True)
    if not found:
        console.print("nothing was given up")
        return
    table = Table("id", "written", "what", "channel", "about", "why")
    for each in found:
        about = each.request_id or each.run_id
        shown = (
            str(each.id),
            terminal.when(each.created_at),
            each.kind,
            each.channel_id,
            short_id(about) if about else "",
            each.error or "",
        )
        table.add_row(*(escape(clean_now(cell)) for cell in shown))
    console.print(table)


@commands.command()
def retry(
    delivery: Annotated[UUID | None, typer.Argument(help="The id, as shown by `list`.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that were given up.")] = False,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Retry messages that were given up; workers send them at their next poll."""
    if (delivery is None) != everything:
        raise SignoffError("name one message (`signoff deliveries list` shows them), or --all")

    async def work(db: Database) -> int:
        return await undelivered.retry_dead(db, delivery)

    number = with_database(read_settings(), use_embedded, work)
    typer.echo(f"{number} will be retried")

"""`signoff deliveries`: messages that Slack refused and that were given up."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from agent.domain.short_ids import short_id
from agent.store.undelivered import UndeliveredMessage
from agent.usecases import undelivered
from signoff.errors import SignoffError
from slackbot.cli import terminal
from slackbot.cli.cli_context import EmbeddedFlag, read_settings, with_database
from slackbot.cli.command_group import ListByDefault
from slackbot.masking import clean_now

commands = typer.Typer(cls=ListByDefault, help="List messages to Slack that were given up, or retry them.")


@commands.command("list")
def list_dead(
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """List messages that were given up, newest first."""
    found = with_database(read_settings(), use_embedded, undelivered.list_dead, limit)
    columns = ["id", "written", "what", "channel", "about", "why"]
    terminal.table(columns, map(_row, found), nothing="nothing was given up")


@commands.command()
def retry(
    delivery: Annotated[UUID | None, typer.Argument(help="The id, as shown by `list`.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that were given up.")] = False,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Retry messages that were given up; workers send them at their next poll."""
    if (delivery is None) != everything:
        raise SignoffError("name one message (`signoff deliveries list` shows them), or --all")
    number = with_database(read_settings(), use_embedded, undelivered.retry_dead, delivery)
    typer.echo(f"{number} will be retried")


def _row(each: UndeliveredMessage) -> list[str]:
    about = each.request_id or each.run_id
    return [
        str(each.id),
        terminal.when(each.created_at),
        each.kind,
        each.channel_id,
        short_id(about) if about else "",
        terminal.line(clean_now(each.error or "")),
    ]

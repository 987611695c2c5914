"""`signoff webhooks`: add, list and remove webhooks; replay or drop their notices."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from agent.database.pools import Database
from agent.domain.outbound import DeadNotice, OutboundEvent, WebhookLine
from agent.usecases import webhooks
from signoff.errors import SignoffError
from slackbot.cli import terminal
from slackbot.cli.cli_context import EmbeddedFlag, read_settings, with_database
from slackbot.masking import clean_now

SHOWN = 20
"""Dead notices in the list; the table counts all."""

commands = typer.Typer(
    no_args_is_help=True, help="Manage webhooks; replay or drop notices that were given up."
)


@commands.command()
def add(
    name: Annotated[str, typer.Argument(help="A name for the webhook.", callback=terminal.no_secret)],
    url: Annotated[str, typer.Argument(help="Its URL: https://…")],
    event: Annotated[
        list[OutboundEvent] | None,
        typer.Option(help="An event to send; can be repeated. All events by default."),
    ] = None,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Notify a URL of requests, decisions and runs. Prints the signing secret once."""
    configured = read_settings()
    events = event or list(OutboundEvent)
    networks = configured.webhook_networks
    secret = with_database(
        configured, use_embedded, webhooks.add, name, url, events, by=terminal.actor(), allowed=networks
    )
    typer.echo(f"{name} gets {', '.join(sorted(events))} from now on. Notices are signed with this")
    typer.echo("secret, which is not shown again:")
    typer.echo(secret)


@commands.command("list")
def list_webhooks(use_embedded: EmbeddedFlag = False) -> None:
    """List all webhooks, and the latest notices that could not be delivered."""

    async def work(db: Database) -> tuple[list[WebhookLine], list[DeadNotice]]:
        return await webhooks.list_webhooks(db), await webhooks.list_dead(db, SHOWN)

    lines, dead = with_database(read_settings(), use_embedded, work)
    columns = ["name", "address", "events", "pending", "given up", "last sent"]
    nothing = "there are no webhooks; `signoff webhooks add NAME URL` adds one"
    terminal.table(columns, map(_row, lines), nothing=nothing)
    for notice in dead:
        about = notice.request_id or notice.run_id
        words = f"{notice.id} {notice.target}: {notice.event} {about}: {notice.error or ''}"
        typer.echo(f"{typer.style('given up', fg='red')} {terminal.line(clean_now(words))}")


@commands.command()
def remove(
    name: Annotated[str, typer.Argument(help="Which one.")], use_embedded: EmbeddedFlag = False
) -> None:
    """Remove a webhook; its pending notices are dropped."""
    with_database(read_settings(), use_embedded, webhooks.remove, name, by=terminal.actor())
    typer.echo(f"{name} is removed")


@commands.command()
def replay(
    notice: Annotated[UUID | None, typer.Argument(help="The id, as shown by `list`.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that were given up.")] = False,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Resend notices that were given up, with all attempts."""
    _one_or_all(notice, everything)
    number = with_database(read_settings(), use_embedded, webhooks.replay, notice)
    typer.echo(f"{number} will be sent again")


@commands.command()
def drop(
    notice: Annotated[UUID | None, typer.Argument(help="The id, as shown by `list`.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that were given up.")] = False,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Drop notices that were given up and that nobody needs any more."""
    _one_or_all(notice, everything)
    number = with_database(read_settings(), use_embedded, webhooks.drop, notice)
    typer.echo(f"{number} dropped")


def _one_or_all(notice: UUID | None, everything: bool) -> None:
    if (notice is None) != everything:
        raise SignoffError("name one notice that was given up (`signoff webhooks list` shows them), or --all")


def _row(line: WebhookLine) -> list[str]:
    return [
        line.name,
        terminal.line(clean_now(line.url)),
        ", ".join(line.events),
        str(line.pending),
        str(line.dead),
        terminal.when(line.last_sent_at) or "never",
    ]

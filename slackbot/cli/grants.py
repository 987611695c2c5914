"""`signoff grants`: list and revoke grants."""

from __future__ import annotations

import json
from typing import Annotated
from uuid import UUID

import typer

from agent.store import views
from agent.usecases import grants
from slackbot.cli import terminal
from slackbot.cli.cli_context import EmbeddedFlag, read_settings, with_database
from slackbot.cli.command_group import ListByDefault
from slackbot.masking import clean_now

commands = typer.Typer(
    cls=ListByDefault,
    invoke_without_command=True,
    help="List or revoke grants: calls that reviewers have allowed in advance.",
)
JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print one JSON object per line, with amounts as exact strings.")
]


@commands.command("list")
def list_grants(as_json: JsonFlag = False, use_embedded: EmbeddedFlag = False) -> None:
    """List the live grants, those that end first at the top."""
    found = with_database(read_settings(), use_embedded, lambda db: db.read(views.live_grants))
    if as_json:
        for each in found:
            numbers = {"uses": each.uses, "max_uses": each.max_uses, "used_sum": str(each.used_sum)}
            until = {"until": each.until.isoformat(), "description": clean_now(each.description)}
            typer.echo(
                json.dumps({"id": str(each.id), "agent": each.agent, "tool": each.tool, **numbers, **until})
            )
        return
    terminal.table(
        ["id", "used", "until", "what"],
        [
            [
                str(each.id),
                f"{each.uses} of {each.max_uses}",
                terminal.when(each.until),
                terminal.line(clean_now(each.description), 200),
            ]
            for each in found
        ],
        nothing="there are no grants",
    )


@commands.command()
def revoke(
    grant_id: Annotated[UUID, typer.Argument(metavar="ID", help="The grant's id, in full.")],
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Revoke a grant for good: people are asked about such calls again."""
    by = terminal.actor()
    ended = with_database(read_settings(), use_embedded, grants.revoke_as_operator, grant_id, by=by)
    typer.echo("revoked" if ended else "it had already ended")

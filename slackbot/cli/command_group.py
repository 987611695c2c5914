"""The commands of `signoff`, in the groups of its help."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from signoff import distribution
from slackbot.cli import GROUPS, masked, opened


class CommandGroup(TyperGroup):
    """Imports only the command that is used."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, shown, rest = super().resolve_command(ctx, args)
        return name, shown if name is None else opened(name), rest


def _version(wanted: bool) -> None:
    if wanted:
        print(" ".join(distribution.installed()))
        raise typer.Exit


cli = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Approvals in Slack for AI agents: an agent asks, a person clicks, the action runs once.",
)


@cli.callback()
def signoff(
    ctx: typer.Context,
    shown: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Runs before every command. Gives `signoff.gate` the secret masking, which it cannot import."""
    ctx.obj = masked


for _group, _commands in GROUPS.items():
    for _name, (_, _sentence) in _commands.items():
        cli.command(_name, help=_sentence, rich_help_panel=_group)(lambda: None)


class ListByDefault(TyperGroup):
    """Empty arguments, or a leading option, mean `list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)

"""The `signoff` command of the distribution `signoff-client`."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.main import get_group

from signoff import distribution
from signoff.errors import SignoffError
from signoff.gate.gate_command import SHAPE, gate
from signoff.gate.help_text import unwrap_help
from signoff.gate.hook_command import SHAPE as HOOK_SHAPE
from signoff.gate.hook_command import hook
from signoff.gate.mcp_command import mcp

WRONG = 2


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(" ".join(distribution.installed()))
        raise typer.Exit


cli = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Ask people in Slack before a command runs. The service itself is installed from its checkout.",
)
cli.command("gate", **SHAPE)(gate)
cli.command("mcp")(mcp)
cli.command("hook", **HOOK_SHAPE)(hook)


@cli.callback()
def signoff(
    shown: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Options before a command."""


command = unwrap_help(get_group(cli))


def main() -> None:
    """Usage errors print one line and exit with code 2."""
    try:
        distribution.installed()
        command(prog_name="signoff")
    except SignoffError as error:
        typer.echo(f"signoff: {error}", err=True)
        raise SystemExit(WRONG) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None

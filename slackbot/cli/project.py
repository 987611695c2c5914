"""`signoff init`, `signoff demo` and `signoff manifest`: the beginning of a project."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

from signoff.errors import SignoffError
from slackbot.cli import templates
from slackbot.cli.cli_context import read_settings


def init(
    folder: Annotated[Path, typer.Argument(help="Where to put the files.")] = Path(),
) -> None:
    """Write an example agent, a policy file and an .env template."""
    for written in templates.write(folder):
        typer.echo(f"wrote {written}")
    there = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    typer.echo(f"\nTry it in a local sandbox:  {there}{_this_command()} demo --agents my_agents")
    typer.echo("For a real workspace: copy .env.example to .env and fill it in; `signoff check` reads it.")


def _this_command() -> str:
    """By name if this program is on the path, otherwise by file."""
    called = Path(sys.argv[0]).absolute()
    found = shutil.which("signoff")
    return "signoff" if found and Path(found).resolve() == called.resolve() else shlex.quote(str(called))


def demo(
    auto: Annotated[
        bool, typer.Option("--auto", help="Play the main scenes automatically, print the results, and exit.")
    ] = False,
    agents: Annotated[
        str | None, typer.Option(help="Modules with your own agents, instead of the tour's.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A real model instead of the scripted one, with OPENAI_API_KEY and OPENAI_BASE_URL."
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="The port of the sandbox's page.", min=0, max=65535)] = 8765,
) -> None:
    """Try Signoff in a local sandbox, without Slack, a model or a database server."""
    [run] = entry_points(group="signoff.demo") or [None]
    if run is None:
        raise SignoffError("the demo is not installed; in a checkout: pip install ./packages/signoff-demo")
    raise SystemExit(run.load()(auto=auto, agents=agents, model=model, port=port))


def manifest(
    url: Annotated[
        str | None, typer.Option(help="The service's public https address, for HTTP instead of Socket Mode.")
    ] = None,
) -> None:
    """Print the manifest of the Slack app.

    SIGNOFF_PUBLIC_URL is the address if none is given.
    """
    from slackbot.slack_api import manifest as slack_manifest  # noqa: PLC0415 - imports Bolt

    configured = read_settings()
    known = None if configured.socket_mode else configured.public_url
    typer.echo(slack_manifest.render(url or known), nl=False)

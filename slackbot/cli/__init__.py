"""The command `signoff`. What a person did wrong is said in one line, with exit code 2.

Each command is a module that is imported when it is used: it needs the whole service, which takes a second, and help
should not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_group

from signoff.errors import SignoffError
from signoff.storable_text import unstorable

COMMANDS = {
    "serve": (
        "service.serve",
        "Run the service: Slack's front door, the workers and the scheduler, or some of them.",
    ),
    "check": (
        "policy.check",
        "Check the settings, the checkpoints file and the agents; list which rule catches each tool.",
    ),
    "init": ("project.init", "Write a ten-line example agent, a checkpoints file and an .env template."),
    "demo": (
        "project.demo",
        "The main job in a local sandbox: a stand-in for Slack, a scripted model, an embedded database.",
    ),
    "pause": (
        "pause.pause",
        "Stop an agent and what is done for it, or all: nothing begins any more, approved or not.",
    ),
    "resume": (
        "pause.resume",
        "Let an agent go on, or end the stop of all; what was approved meanwhile begins.",
    ),
    "doctor": (
        "doctor.doctor",
        "Look whether everything is there that the service needs, and say what mends it; exit code 1 if not.",
    ),
    "mcp": (
        "signoff.gate.mcp_command.mcp",
        "Serve MCP over standard input and output: request_approval, get_decision, permission_prompt.",
    ),
    "manifest": (
        "project.manifest",
        "Print the manifest to create the Slack app from; SIGNOFF_PUBLIC_URL is the address where none is given.",
    ),
    "export": (
        "export.export",
        "Write every request that was opened or decided in that time, and every vote cast; secrets are masked.",
    ),
    "retention": (
        "retention.retention",
        "Erase arguments, facts, contexts, transcripts and results of what ended longer ago than that.",
    ),
    "gate": (
        "signoff.gate.gate_command.gate",
        "Ask people; run a command when they approve, and only then, with its exit code.",
    ),
    "db": ("database.commands", "The database: migrate it, or ask where it stands."),
    "audit": ("audit.commands", "The record of what happened."),
    "webhooks": ("webhooks.commands", "Webhooks: add, list, remove, and replay what was given up."),
    "deliveries": (
        "deliveries.commands",
        "Messages to Slack that were given up: list them, or try them again.",
    ),
    "keys": ("keys.commands", "Keys for programs that call the HTTP API."),
    "requests": (
        "requests.commands",
        "Look at requests, or withdraw one. Deciding is for people whom Slack knows: on a card or on the page.",
    ),
    "runs": ("runs.commands", "Look at runs of agents, or resume one that failed."),
}
"""Each command with where it is, and the first sentence of its help."""

WRONG = 2


def opened(name: str) -> Any:
    """The command itself, with all that it imports; from here on tracebacks are printed without secrets."""
    from slackbot.masking import guard_tracebacks  # noqa: PLC0415 - slow to import, as the rooms are

    guard_tracebacks()
    place, _, named = COMMANDS[name][0].rpartition(".")
    module = import_module(place if place.startswith("signoff.") else f"slackbot.cli.{place}")
    found, around = getattr(module, named), typer.Typer()
    if isinstance(found, typer.Typer):
        around.add_typer(found, name=name)
    else:
        around.command(name, **getattr(module, "SHAPE", {}))(found)  # `SHAPE`: how a command differs
    return get_group(around).commands[name]


class CommandGroup(TyperGroup):
    """Shows each command by its name and first sentence, and opens the one that is used."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, shown, rest = super().resolve_command(ctx, args)
        return name, shown if name is None else opened(name), rest


def _version(wanted: bool) -> None:
    if wanted:
        try:
            print(f"signoff {version('signoff')}")
        except PackageNotFoundError:
            print("signoff, not installed as a package")
        raise typer.Exit


cli = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Approvals in Slack for AI agents: an agent asks, a person clicks, the agent goes on, once.",
)


@cli.callback()
def signoff(
    ctx: typer.Context,
    shown: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """What stands before every command: `signoff.gate` is given the masking of secrets, which it cannot import."""
    ctx.obj = _masked


for _name, (_, _sentence) in COMMANDS.items():
    cli.command(_name, help=_sentence)(lambda: None)


def main() -> None:
    """The console script."""
    import_module("agent")  # before a module of that name in the current folder can hide it
    sys.path.insert(0, str(Path.cwd()))  # so that SIGNOFF_AGENTS finds modules of the current folder
    try:
        _check(sys.argv[1:])
        cli(prog_name="signoff")
    except SignoffError as error:
        _fail(error)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _check(arguments: Sequence[str]) -> None:
    """Raises SignoffError for an argument that cannot be stored: bytes that are not UTF-8 arrive as lone surrogates."""
    for each in arguments:
        if unstorable(each) is not None:
            raise SignoffError(f"the argument {each!a} is not valid UTF-8, so it cannot be stored")


def _fail(error: SignoffError) -> NoReturn:
    for line in getattr(error, "problems", [str(error)]):
        print(f"signoff: {_masked(line)}", file=sys.stderr)
    raise SystemExit(WRONG)


def _masked(line: str) -> str:
    from slackbot.masking import clean_now  # noqa: PLC0415 - it is slow to import

    return clean_now(line, assigned=False)

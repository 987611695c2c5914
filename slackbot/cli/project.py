"""`signoff init`, `signoff demo`, `signoff manifest`: the beginning of a project, with the files that `init` writes."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

from signoff.errors import SignoffError
from slackbot.cli.cli_context import read_settings
from slackbot.settings import SettingsError

AGENT = '''"""A small agent: it may look at tables as it likes, and deletes records only when a person has said yes."""

from signoff import Agent, tool


@tool(read_only=True)
def list_tables() -> list[str]:
    """List the tables of the database."""
    return ["users", "orders"]


@tool
def delete_records(table_name: str, count: int) -> str:
    """Delete the oldest records of a table."""
    return f"Deleted {count} records from {table_name}"


agent = Agent("data_manager", "You help people to manage data.", [list_tables, delete_records])
'''

CHECKPOINTS = """# Which tool calls people must see first; the first checkpoint that matches wins (`signoff check`).
[defaults]
# channel = "#reviews"           # or SIGNOFF_CHANNEL
timeout = "24h"
approvers = ["channel"]          # members of the review channel; or user ids (U...) and user groups (S...)
unmatched = "review"             # a tool that no checkpoint names is asked about, too
# For a team with one reviewer, who otherwise cannot approve what they asked for, advised or edited:
# prevent_self_review = false    # whoever asked for an action may approve it
# adviser_may_approve = true     # whoever gave a reason or a note may approve what is proposed after it
# editor_may_approve = true      # whoever changed the arguments may approve them, and what is proposed after it
# money = ["facts.price"]        # what cards show as 1,899.00; everything else is shown as it is
# default_agent = "data_manager" # takes what people write to the app itself

[[checkpoint]]
checkpoint_id = "deletions"
action_pattern = "delete_*"      # a regular expression, matched from the start of the tool's name
description_template = "Delete {args.count} records from {args.table_name}"
risk = "high"                    # low, medium, high, critical; from high on, approving asks for confirmation
on_reject = "stop"               # or "tell_model"
"""

ENV = """# Settings for `signoff serve`. Each secret can also be given as a file: SLACK_BOT_TOKEN_FILE=/run/secrets/...
DATABASE_URL=postgresql://user:password@localhost:5432/signoff
SLACK_BOT_TOKEN=
# Socket Mode, needs no public address:
SLACK_APP_TOKEN=
# or HTTP at /slack/events:
# SLACK_SIGNING_SECRET=
# Where people reach the page and the API, for links:
# SIGNOFF_PUBLIC_URL=https://signoff.example.com
SIGNOFF_CHANNEL=#reviews
SIGNOFF_AGENTS=my_agents
SIGNOFF_CHECKPOINTS=checkpoints.toml
OPENAI_API_KEY=
# OPENAI_BASE_URL=
# SIGNOFF_MODEL=gpt-5-mini
"""

FILES = {"my_agents.py": AGENT, "checkpoints.toml": CHECKPOINTS, ".env.example": ENV}


def write(folder: Path) -> list[Path]:
    """Returns the paths. Overwrites nothing: raises SettingsError if a file exists."""
    there = [folder / name for name in FILES if (folder / name).exists()]
    if there:
        raise SettingsError([f"{path} already exists; nothing was written" for path in there])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in FILES.items():
            (folder / name).write_text(content, encoding="utf-8")
    except OSError as error:
        raise SettingsError([f"cannot write into {folder}: {error.strerror}"]) from None
    return [folder / name for name in FILES]


def init(
    folder: Annotated[Path, typer.Argument(help="Where to put the files.")] = Path(),
) -> None:
    """Write an example agent, a policy file and an .env template."""
    for written in write(folder):
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

    SIGNOFF_PUBLIC_URL is the address if none is given. Names of the app and its commands come from SIGNOFF_LABEL,
    SIGNOFF_AGENT_COMMAND and SIGNOFF_APPROVALS_COMMAND.
    """
    from slackbot.slack_api import manifest as slack_manifest  # noqa: PLC0415 - imports Bolt

    configured = read_settings()
    known = None if configured.socket_mode else configured.public_url
    given_as = "--url" if url else "SIGNOFF_PUBLIC_URL"
    typer.echo(slack_manifest.render(url or known, configured.commands, given_as=given_as), nl=False)

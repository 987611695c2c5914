"""The command `signoff`. What a person did wrong is said in one line, without a traceback, with exit code 2."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import typer

from agent.domain.errors import PolicyError, SignoffError
from agent.store import embedded
from slackbot.cli import (
    audit,
    database,
    doctor,
    export,
    gate,
    keys,
    mcp,
    pausing,
    policy,
    project,
    requests,
    retention,
    runs,
    service,
    webhooks,
)
from slackbot.secrets import clean_now, guard_tracebacks
from slackbot.settings import SettingsError

cli = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Approvals in Slack for AI agents: an agent asks, a person clicks, the agent goes on, once.",
)
for command in (
    service.serve,
    policy.check,
    project.init,
    project.demo,
    pausing.pause,
    pausing.resume,
    doctor.doctor,
    mcp.mcp,
    project.manifest,
    export.export,
    retention.retention,
):
    cli.command()(command)
cli.command(epilog=gate.EPILOG, context_settings={"allow_interspersed_args": False})(gate.gate)
cli.add_typer(database.commands, name="db")
cli.add_typer(audit.commands, name="audit")
cli.add_typer(webhooks.commands, name="webhooks")
cli.add_typer(keys.commands, name="keys")
cli.add_typer(requests.commands, name="requests")
cli.add_typer(runs.commands, name="runs")

WRONG = 2


def main() -> None:
    """The console script."""
    sys.path.insert(0, str(Path.cwd()))  # so that SIGNOFF_AGENTS finds modules of the current folder
    guard_tracebacks()
    try:
        cli(prog_name="signoff")
    except (SignoffError, embedded.EmbeddedServerError) as error:
        _fail(error)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _fail(error: Exception) -> NoReturn:
    lines = error.problems if isinstance(error, SettingsError | PolicyError) else [str(error)]
    for line in lines:
        print(f"signoff: {clean_now(line, assigned=False)}", file=sys.stderr)
    raise SystemExit(WRONG)

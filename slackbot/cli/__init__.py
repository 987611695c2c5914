"""The command `signoff`. Usage errors print one line and exit with code 2.

A command's module is imported only when the command is used: importing the service takes a second, and help must not.
Coding agents start `signoff hook` before each of their calls, so that it is answered before even Typer is imported.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from signoff import distribution
from signoff.errors import SignoffError
from signoff.gate.unasked_calls import answers_at_once
from signoff.storable_text import unstorable

GROUPS = {
    "Get started": {
        "demo": (
            "project.demo",
            "Try Signoff in a local sandbox, without Slack, a model or a database server.",
        ),
        "init": ("project.init", "Write an example agent, a policy file and an .env template."),
        "doctor": (
            "doctor.doctor",
            "Test everything that the service needs, and say how to fix what is wrong.",
        ),
        "manifest": ("project.manifest", "Print the manifest of the Slack app."),
    },
    "Run the service": {
        "serve": (
            "service.serve",
            "Run the service: Slack, agents and scheduler, or only some of these roles.",
        ),
        "db": ("database.commands", "Migrate the database, or show its version."),
        "check": (
            "check.commands",
            "Check settings, policy and agents, and list which checkpoint catches each tool.",
        ),
        "policy": (
            "policy.commands",
            "Put a policy in force, show it, list earlier ones, or go back to one.",
        ),
        "pause": ("pause.pause", "Stop one agent, or all: no call begins, approved or not."),
        "resume": (
            "pause.resume",
            "Resume a paused agent, or all; calls approved in the meantime begin.",
        ),
    },
    "Inspect and act": {
        "requests": ("requests.commands", "List, show or withdraw requests."),
        "runs": ("runs.commands", "List or show runs, or resume a failed one."),
        "schedule": (
            "schedule.commands",
            "Start agents at fixed times: add, list, pause or remove schedules.",
        ),
        "limits": (
            "limits.limits",
            "Show the use of each limit over time under the policy in force, by subject.",
        ),
        "grants": ("grants.commands", "List or revoke grants: calls that reviewers have allowed in advance."),
        "keys": ("keys.commands", "Manage API keys for programs."),
        "webhooks": ("webhooks.commands", "Manage webhooks; replay or drop notices that were given up."),
        "deliveries": (
            "deliveries.commands",
            "List messages to Slack that were given up, or retry them.",
        ),
    },
    "Audit": {
        "audit": ("audit.commands", "Verify the audit log."),
        "export": ("export.export", "Export requests and votes as JSON lines or CSV, with secrets masked."),
        "retention": (
            "retention.retention",
            "Erase the content of requests and runs that ended before a given age.",
        ),
    },
    "Ask from a program": {
        "gate": ("signoff.gate.gate_command.gate", "Ask people, and run a command only if they approve."),
        "mcp": (
            "signoff.gate.mcp_command.mcp",
            "Serve MCP over standard input and output, for coding agents.",
        ),
        "hook": (
            "signoff.gate.hook_command.hook",
            "Send a coding agent's tool calls to people for approval.",
        ),
    },
}
"""In the groups of `--help`: where each command is defined, and the first sentence of its help."""

COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}

WRONG = 2


def opened(name: str) -> Any:
    """Later tracebacks have secrets masked."""
    gc.disable()  # collecting between imports takes a fifth of their time, and what they make stays
    if name == "serve":
        _import_structlog()
    import typer  # noqa: PLC0415 - slow to import, as the next two
    from typer.main import get_group  # noqa: PLC0415

    from signoff.gate.help_text import unwrap_help  # noqa: PLC0415
    from slackbot.masking import guard_tracebacks  # noqa: PLC0415 - slow to import

    guard_tracebacks()
    place, _, named = COMMANDS[name][0].rpartition(".")
    if not place.startswith("signoff."):  # coding agents can write to their hook's folder
        sys.path.insert(0, str(Path.cwd()))  # lets SIGNOFF_AGENTS import from the current folder
    module = import_module(place if place.startswith("signoff.") else f"slackbot.cli.{place}")
    gc.enable()
    found, around = getattr(module, named), typer.Typer()
    if isinstance(found, typer.Typer):
        around.add_typer(found, name=name)
    else:
        around.command(name, **getattr(module, "SHAPE", {}))(found)
    return unwrap_help(get_group(around).commands[name])


def _import_structlog() -> None:
    """Import structlog as if Rich were missing. It loads that for tracebacks with local variables: 4 MB for nothing.

    Those may be secrets, so our tracebacks have none (`service.logs`). What prints tables imports Rich itself.
    """
    if "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import_module("structlog")
    finally:
        del sys.modules["rich"]


def main() -> None:
    """Run the command line; a SignoffError becomes masked lines and an exit code, Ctrl-C exits with 130."""
    if sys.argv[1:2] == ["hook"] and answers_at_once(sys.argv[2:]):
        return
    import_module("agent")  # before a module named `agent` in the current folder can shadow it
    try:
        distribution.installed()
        _check(sys.argv[1:])
        from slackbot.cli.command_group import cli  # noqa: PLC0415 - slow to import

        cli(prog_name="signoff")
    except SignoffError as error:
        _fail(error)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _check(arguments: Sequence[str]) -> None:
    """Raise SignoffError for arguments that cannot be stored: invalid UTF-8 arrives as lone surrogates."""
    for each in arguments:
        if unstorable(each) is not None:
            raise SignoffError(f"the argument {each!a} is not valid UTF-8, so it cannot be stored")


def _fail(error: SignoffError) -> NoReturn:
    for line in getattr(error, "problems", [str(error)]):
        print(f"signoff: {masked(line)}", file=sys.stderr)
    raise SystemExit(WRONG)


def masked(line: str) -> str:
    """Mask the secrets in an error line for the terminal; words after a setting's name stay readable."""
    from slackbot.masking import clean_now  # noqa: PLC0415 - slow to import

    return clean_now(line, assigned=False)

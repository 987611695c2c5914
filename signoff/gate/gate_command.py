"""The command `signoff gate` and its options."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer

from signoff.canonical import parse_json
from signoff.client import ApprovalClient
from signoff.client.facts import facts_of
from signoff.description import shorten
from signoff.errors import MalformedArguments, SignoffError
from signoff.gate import options
from signoff.gate.facts_command import FactsCommand, facts_command
from signoff.gate.gate_steps import Gate, GateClosed, GateQuestion
from signoff.gate.run_command import environment_of
from signoff.values import ACTION_NAME, ARGUMENT_NAME, COMMAND, REQUEST_NAME, SLACK_USER
from signoff.visible_text import one_line

Say = Callable[[str], None]

LONGEST_LINE = 2000

_RESERVED = ("command", COMMAND)
"""Reviewers could confuse these with the command itself."""

EPILOG = (
    "Exit codes: the command's own if it ran (128 + n when signal n ended it; 127 not found, 126 not executable). "
    "69: Signoff cannot be reached, or refuses the call. 75: nobody decided in time. 76: an earlier start with this "
    "--key has already begun. 77: rejected, withdrawn, denied by policy, or not begun in time. 78: a reviewer changed "
    "the arguments and --accept-edits was not given. 130, 143: Ctrl-C, SIGTERM. 2: a wrong option. "
    "In all of these but the first the command has not run."
)
SHAPE: dict[str, Any] = {"epilog": EPILOG, "context_settings": {"allow_interspersed_args": False}}


def gate(
    ctx: typer.Context,
    command: Annotated[list[str], typer.Argument(help="The command and its arguments, behind --.")],
    action: Annotated[str, typer.Option(help="The action that checkpoints see, such as deploy.")],
    arg: Annotated[
        list[str] | None,
        typer.Option(
            help="An argument of the action: name=text, or name:=JSON for a number, a list …; can be repeated."
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="A unique name for this question. A second start with the same key finds the same request, so nobody "
            "is asked twice."
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(help="How long to wait, such as 30m; by default, as long as the request is open."),
    ] = None,
    lease: Annotated[
        str, typer.Option(help="How long the command may take before people are asked for its outcome.")
    ] = "1h",
    description: Annotated[str | None, typer.Option(help="One sentence for reviewers.")] = None,
    context: Annotated[
        list[str] | None,
        typer.Option(help="What reviewers should know: name=text or name:=JSON; can be repeated."),
    ] = None,
    requester: Annotated[
        str | None,
        typer.Option(help="Requester (a Slack user id); needs a key with the scope on_behalf."),
    ] = None,
    session: options.Session = None,
    facts: FactsCommand = None,
    accept_edits: Annotated[
        bool,
        typer.Option(
            "--accept-edits",
            help="The command reads SIGNOFF_ARG_…, so a reviewer may change the arguments.",
        ),
    ] = False,
    url: options.Url = None,
    key_file: options.KeyFile = None,
) -> None:
    """Ask people, and run a command only if they approve.

    The command finds the decision in its environment: SIGNOFF_ARG_ENV for `--arg env=…`, all arguments as JSON in
    SIGNOFF_ARGUMENTS, and SIGNOFF_IDEMPOTENCY_KEY. Ctrl-C while waiting withdraws the request.
    """
    options.spelled("--action", ACTION_NAME, action)
    options.spelled("--key", REQUEST_NAME, key)
    options.spelled("--requester", SLACK_USER, requester)
    arguments = _pairs("--arg", arg or [])
    environment_of(arguments)
    context_pairs = _pairs("--context", context or [])
    look_up = None if facts is None else facts_of(facts_command(facts), action)
    more = {
        "description": description,
        "context": context_pairs or None,
        "requester": requester,
        "session": options.session_name(session),
    }
    question = GateQuestion(
        action, arguments | {COMMAND: command}, key or f"gate-{uuid4()}", key is not None, more, look_up
    )
    seconds = options.duration("--timeout", timeout).total_seconds() if timeout else None
    lease_seconds = options.duration("--lease", lease).total_seconds()
    if not 1 <= lease_seconds <= 86400:
        raise typer.BadParameter("--lease must be between 1s and 24h")
    say = _line_printer(ctx.obj or str)
    _log_through(say)
    if shutil.which(command[0]) is None:
        say(f"there is no command {command[0]}; nobody was asked")
        raise SystemExit(127)
    try:
        with _client(url, key_file) as client:
            steps = Gate(client, question, say)
            approval = steps.decision(seconds)
            if approval.status == "not_required":
                status = steps.run_without_approval(command)
            else:
                status = steps.run_approved(command, approval, accept_edits, lease_seconds, seconds)
    except GateClosed as closed:
        for each in closed.args:
            say(each)
        status = int(closed.code)
    raise SystemExit(status)


# --- parts ---------------------------------------------------------------------------------------


def _pairs(option: str, given: list[str]) -> dict[str, Any]:
    """Parse `name=text` and `name:=JSON`. Raises typer.BadParameter."""
    found: dict[str, Any] = {}
    for each in given:
        name, equals, text = each.partition("=")
        typed = name.endswith(":")
        name = name.removesuffix(":")
        if not equals:
            example = f"such as {option} env=prod or {option} count:=5"
            raise typer.BadParameter(f"{option} {each!r}: write name=text, or name:=JSON, {example}")
        options.spelled(option, ARGUMENT_NAME, name)
        if name in _RESERVED:
            raise typer.BadParameter(
                f"{option} {name}: this name is reserved; reviewers see the command as {COMMAND}"
            )
        if name in found:
            raise typer.BadParameter(f"{option} {name} is given twice")
        try:
            found[name] = parse_json(text) if typed else text
        except MalformedArguments as fault:
            raise typer.BadParameter(f"{option} {name}: {fault}; name=text takes any text") from None
    return found


def _client(url: str | None, key_file: Path | None) -> ApprovalClient:
    """Raises SignoffError naming the missing or invalid setting."""
    try:
        return ApprovalClient(options.address(url), options.secret(key_file))
    except ValueError as error:
        raise SignoffError(str(error)) from None


def _line_printer(clean: Callable[[str], str]) -> Say:
    """Lines are safe for a terminal; `clean` masks secrets."""

    def say(words: str) -> None:
        typer.echo(f"signoff: {shorten(clean(one_line(words)), LONGEST_LINE)}", err=True)

    return say


class _RetryLog(logging.Handler):
    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.WARNING:
            self._say(record.getMessage())


def _log_through(say: Say) -> None:
    log = logging.getLogger("signoff.client")
    log.propagate = False
    log.handlers[:] = [_RetryLog(say)]

"""The command `signoff hook` and its options."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from signoff.description import shorten
from signoff.errors import SignoffError
from signoff.gate import hook_settings, options
from signoff.gate.coding_agents import AGENTS, MAX_BYTES, Name, Permission, ToolCall, answer_text, read_call
from signoff.gate.unasked_calls import OTHER_TOOLS, is_unasked
from signoff.visible_text import one_line

LATEST = 20.0
"""Seconds after the wait at which the agent is denied, whatever still runs here."""

LONGEST_REASON = 2000

EPILOG = (
    "Every error denies the call: Signoff cannot be reached, the key is wrong, the input is not understood. "
    "The key comes from SIGNOFF_KEY_FILE or SIGNOFF_KEY and is never written into a file."
)
SHAPE: dict[str, Any] = {"epilog": EPILOG}


def hook(
    agent: Annotated[Name, typer.Argument(help="The coding agent.", show_default=False)],
    install: Annotated[
        bool, typer.Option("--install", help="Add the hook to the agent's settings, or bring it up to date.")
    ] = False,
    uninstall: Annotated[
        bool, typer.Option("--uninstall", help="Remove the hook from the agent's settings.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--print", help="Print the settings with the hook, and write nothing.")
    ] = False,
    user: Annotated[
        bool,
        typer.Option("--user", help="Use your own settings, for all projects, instead of this directory's."),
    ] = False,
    match: Annotated[
        str | None,
        typer.Option(
            help="The only tools that people are asked about: a regular expression for the whole name. Without it, "
            "people are asked about every call that does not just read, talk to the user or edit the project.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        str, typer.Option(help="How long a call waits for people: 30m, 4h. Then it is denied, for now.")
    ] = "10m",
    others: Annotated[bool, typer.Option(OTHER_TOOLS, hidden=True)] = False,
    url: options.Url = None,
    key_file: options.KeyFile = None,
) -> None:
    """Send a coding agent's tool calls to people for approval.

    `--install` adds the hook to the settings of this directory. Without it, this is the hook: it reads a call from
    standard input and prints the answer.
    """
    seconds = options.duration("--timeout", timeout).total_seconds()
    if install + uninstall + show > 1:
        raise typer.BadParameter("give one of --install, --uninstall and --print")
    if install or uninstall or show:
        if not 1 <= seconds <= 86400:
            raise typer.BadParameter("must be between 1s and 24h", param_hint="--timeout")
        _check(match)
        settings = hook_settings.HookSettings(agent, match, int(seconds), user)
        for line in settings.printed() if show else settings.install() if install else settings.uninstall():
            typer.echo(line)
        return
    if sys.stdin.isatty():
        raise SignoffError(f"a coding agent starts this; `signoff hook --install {agent}` sets it up")
    answer = _Answer(agent, seconds + LATEST)
    try:
        call = read_call(sys.stdin.buffer.read(MAX_BYTES + 1))
        _check(match)
        unasked = is_unasked(agent, call, match=match, others=others)
        permission = Permission("none") if unasked else _permission(agent, call, seconds, url, key_file)
    except Exception as error:  # any error is a denial
        permission = Permission("deny", str(error) or type(error).__name__)
    answer.give(permission)


def _permission(
    agent: Name, call: ToolCall, seconds: float, url: str | None, key_file: Path | None
) -> Permission:
    """Raises SignoffError and ValueError, also for denials."""
    deadline = time.monotonic() + seconds
    where, key = options.address(url), options.secret(key_file)
    from signoff.client import ApprovalClient  # noqa: PLC0415 - slow to import
    from signoff.gate.hook_steps import HookSteps  # noqa: PLC0415 - imports the client

    logging.getLogger("signoff.client").addHandler(
        logging.NullHandler()
    )  # the answer itself says where to decide
    with ApprovalClient(where, key) as client:
        return HookSteps(client, AGENTS[agent], call, deadline).permission()


def _check(match: str | None) -> None:
    try:
        re.compile(match or "")
    except re.error as error:
        raise typer.BadParameter(f"is not a regular expression: {error}", param_hint="--match") from None


class _Answer:
    """Given once, and in time: agents run the tool if the hook is late."""

    def __init__(self, agent: Name, seconds: float) -> None:
        self._agent = agent
        self._turn = threading.Lock()
        clock = threading.Timer(seconds, self._too_late)
        clock.daemon = True
        clock.start()

    def give(self, permission: Permission) -> None:
        self._turn.acquire()  # never released: only one answer
        self._print(permission)

    def _too_late(self) -> None:
        if self._turn.acquire(blocking=False):
            self._print(Permission("deny", "Signoff did not answer in time"))
            os._exit(0)

    def _print(self, permission: Permission) -> None:
        reason = permission.reason
        if permission.decision == "deny":
            # Quoted lines are people's words; any other break may come from the call.
            lines = "\n".join(one_line(each) for each in re.split(r"\n(?=> )", reason))
            reason = f"Signoff: {shorten(lines, LONGEST_REASON)}"
        sent = Permission(permission.decision, reason, permission.arguments, permission.notes)
        sys.stdout.write(f"{answer_text(self._agent, sent)}\n")
        sys.stdout.flush()

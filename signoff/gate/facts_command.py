"""A command of the user's own that looks up facts."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

import typer

from signoff.canonical import canonical_bytes, parse_arguments
from signoff.errors import SignoffError

FactsCommand = Annotated[
    str | None,
    typer.Option(
        "--facts-command",
        help="A command that reads the arguments as JSON and prints the facts, a JSON object; SIGNOFF_ACTION names the "
        "action. Needs a key with the scope facts.",
    ),
]

TIMEOUT = 10.0
"""Seconds."""


ACTION = "SIGNOFF_ACTION"


def facts_command(line: str) -> Callable[[str, Mapping[str, Any]], dict[str, Any]]:
    """Raises typer.BadParameter."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise typer.BadParameter(f"--facts-command: {error}") from None
    if not words:
        raise typer.BadParameter("--facts-command is empty")
    return partial(_look_up, words)


def _look_up(words: list[str], action: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Raises SignoffError."""
    try:
        ran = subprocess.run(  # noqa: S603 - the operator's own command
            words,
            env={**os.environ, ACTION: action},
            input=canonical_bytes(dict(arguments)),
            stdout=subprocess.PIPE,
            timeout=TIMEOUT,
            check=True,
        )
        return parse_arguments(ran.stdout)
    except subprocess.TimeoutExpired:
        raise SignoffError(f"the facts command did not end within {TIMEOUT:g} s") from None
    except subprocess.CalledProcessError as error:
        raise SignoffError(f"the facts command ended with exit code {error.returncode}") from None
    except OSError as error:
        raise SignoffError(f"the facts command could not be started: {error.strerror}") from None

"""`--facts-command`: a command of the program's own that looks up what is true about the arguments."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from functools import partial
from typing import Any

from signoff.canonical import canonical_bytes, parse_arguments
from signoff.errors import SignoffError

TIMEOUT = 10.0
"""Seconds that the command may take."""


def facts_command(line: str) -> Callable[..., dict[str, Any]]:
    """The function of facts that this command is. Raises ValueError for what is no command."""
    words = shlex.split(line)
    if not words:
        raise ValueError("it is empty")
    return partial(_look_up, words)


def _look_up(words: list[str], /, **arguments: Any) -> dict[str, Any]:
    """What it prints, a JSON object, when it has read the arguments from its standard input. Raises SignoffError."""
    try:
        ran = subprocess.run(  # noqa: S603 - the operator's own command
            words, input=canonical_bytes(arguments), stdout=subprocess.PIPE, timeout=TIMEOUT, check=True
        )
        return parse_arguments(ran.stdout)
    except subprocess.TimeoutExpired:
        raise SignoffError(f"the facts command did not end within {TIMEOUT:g} s") from None
    except subprocess.CalledProcessError as error:
        raise SignoffError(f"the facts command ended with exit code {error.returncode}") from None
    except OSError as error:
        raise SignoffError(f"the facts command could not be started: {error.strerror}") from None

"""A command runs with the decided arguments, and signals reach it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

from signoff.canonical import canonical_bytes
from signoff.errors import SignoffError
from signoff.values import COMMAND

PREFIX = "SIGNOFF_ARG_"
GIVEN = ("SIGNOFF_ARGUMENTS", "SIGNOFF_REQUEST_ID", "SIGNOFF_IDEMPOTENCY_KEY")
"""Variables of the command's own decision; an outer gate's are removed."""

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignal(BaseException):
    """A signal to stop (Ctrl-C, SIGTERM or SIGHUP), which handlers of ordinary errors do not catch."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


@dataclass(frozen=True)
class CommandResult:
    """``code`` as a shell reports it."""

    code: int
    words: str
    seconds: float


def environment_of(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Texts unchanged, anything else as JSON. Raises SignoffError."""
    found: dict[str, str] = {}
    decided = {name: value for name, value in arguments.items() if name != COMMAND}
    for name, value in decided.items():
        variable = PREFIX + "".join(
            each if each.isascii() and each.isalnum() else "_" for each in name.upper()
        )
        if variable in found:
            raise SignoffError(f"two arguments would both be {variable} in the command's environment")
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if "\0" in text:
            raise SignoffError(f"the argument {name} has a NUL in it, which no environment can hold")
        found[variable] = text
    return found | {"SIGNOFF_ARGUMENTS": canonical_bytes(decided).decode()}


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP raise StopSignal once; a second one has its default effect."""

    def stop(number: int, _: FrameType | None) -> None:
        for each in STOPPING:
            signal.signal(each, signal.SIG_DFL)
        raise StopSignal(number)

    with _handled(stop):
        yield


@contextmanager
def deferred() -> Iterator[list[int]]:
    """Collect signals, so that nothing stops us between claim and report."""
    came: list[int] = []
    with _handled(lambda number, _: came.append(number)):
        yield came


def run_command(command: list[str], given: Mapping[str, str], stopped: list[int]) -> CommandResult:
    """Forward SIGTERM and SIGHUP; ``stopped`` holds earlier signals."""
    kept = {
        name: value for name, value in os.environ.items() if name not in GIVEN and not name.startswith(PREFIX)
    }
    began = time.monotonic()
    try:
        process = subprocess.Popen(command, env=kept | dict(given))  # noqa: S603 - running the command is the purpose
    except OSError as error:
        code = 127 if isinstance(error, FileNotFoundError) else 126
        return CommandResult(
            code, f"the command could not be started: {error.strerror}", time.monotonic() - began
        )

    def pass_on(number: int, _: FrameType | None) -> None:
        if number != signal.SIGINT:
            with suppress(ProcessLookupError):
                process.send_signal(number)

    with _handled(pass_on):
        for number in stopped:
            process.send_signal(number)
        code = process.wait()
    seconds = time.monotonic() - began
    if code < 0:
        return CommandResult(128 - code, f"ended by signal {-code} ({signal.Signals(-code).name})", seconds)
    return CommandResult(code, f"exit code {code}", seconds)


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Ignored signals (nohup, background jobs) stay ignored."""
    before = {each: signal.getsignal(each) for each in STOPPING}
    taken = {each: was for each, was in before.items() if was is not signal.SIG_IGN}
    for each in taken:
        signal.signal(each, handler)
    try:
        yield
    finally:
        for each, was in taken.items():
            signal.signal(each, was)

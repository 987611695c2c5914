"""Options that the gate's commands share, and how they are read."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from signoff.durations import seconds_of
from signoff.errors import SignoffError
from signoff.sessions import checked_session
from signoff.values import Spelling

Url = Annotated[
    str | None,
    typer.Option(
        envvar="SIGNOFF_URL",
        help="The address of the service: https://signoff.example.com.",
        show_default=False,
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        envvar="SIGNOFF_KEY_FILE",
        help="A file with the API key; or set SIGNOFF_KEY. The key is never an option, because other users of the "
        "machine could read it.",
    ),
]

Session = Annotated[
    str | None,
    typer.Option(
        envvar="SIGNOFF_SESSION",
        help="The conversation that this belongs to, up to 200 characters: whoever gave their own words in it does not "
        "approve alone what follows in it.",
        show_default=False,
    ),
]


def address(url: str | None) -> str:
    """Raises SignoffError naming the missing setting."""
    return url or _missing("SIGNOFF_URL")


def secret(key_file: Path | None) -> str:
    """Raises SignoffError naming the missing or invalid setting."""
    given = os.environ.get("SIGNOFF_KEY")
    if given and key_file:
        raise SignoffError("SIGNOFF_KEY and SIGNOFF_KEY_FILE are both set; keep one")
    if key_file is None:
        return given or _missing("SIGNOFF_KEY")
    try:
        return key_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error  # strerror only: the full text repeats the file name
        raise SignoffError(f"SIGNOFF_KEY_FILE: cannot read {key_file}: {why}") from None


def spelled(option: str, rule: Spelling, given: str | None) -> None:
    """Raises typer.BadParameter."""
    if given is not None and (problem := rule.problem(given)) is not None:
        raise typer.BadParameter(f"{given!r} {problem}", param_hint=option)


def duration(option: str, text: str) -> timedelta:
    """`90d`, `1h30m`, or seconds. Raises typer.BadParameter."""
    try:
        return timedelta(seconds=seconds_of(text))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def session_name(given: str | None) -> str | None:
    """Raises typer.BadParameter."""
    try:
        return checked_session(given)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--session") from None


def _missing(name: str) -> NoReturn:
    raise SignoffError(
        f"{name} is not set: this command asks a running Signoff (`signoff keys create` makes a key)"
    )

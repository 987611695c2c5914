"""Command output: external text made safe for a terminal, and tables."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from agent.runtime.stored_text import storable_text
from signoff import formats
from signoff.durations import seconds_of
from signoff.formats import enumerated
from signoff.values import Person
from slackbot.cards import inert
from slackbot.masking import NO_NAME, is_no_name

PIPED = 200
"""When piped, for example to grep."""


def actor() -> str:
    """The operating system login, for the audit log."""
    return f"cli:{storable_text(getpass.getuser())}"


def line(text: str, limit: int = 2000) -> str:
    """Control characters are shown as signs."""
    return inert.line(text, limit)


def when(at: datetime | None) -> str:
    """Write a time in UTC for a table; empty for None."""
    return formats.moment(at) if at else ""


def rfc3339(at: datetime | None) -> str | None:
    """Write a time for JSON output: RFC 3339 in UTC, with microseconds and Z; None stays None."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z") if at else None


def who(person: Person | None) -> str:
    """Write a person for a table, in at most 60 characters safe for a terminal; empty for None."""
    return line(str(person), 60) if person else ""


def people(all_of_them: Sequence[Person], at_most: int = 100) -> str:
    """Write people as one text safe for a terminal; those beyond `at_most` are counted."""
    return "".join(enumerated(list(map(who, all_of_them)), at_most))


def moment(option: str, text: str) -> datetime:
    """A date, RFC 3339, or how long ago (`7d`); without a zone it is UTC. Raises typer.BadParameter for ``option``."""
    try:
        if text.endswith(("d", "h", "m", "s")):
            return datetime.now(UTC) - timedelta(seconds=seconds_of(text))
        at = datetime.fromisoformat(text)
    except ValueError:
        words = "must be a date, a time (RFC 3339), or how long ago, such as 7d"
        raise typer.BadParameter(words, param_hint=option) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, nothing: str) -> None:
    """Apparent markup is plain text. The first column identifies the row, so it is never cut."""
    first, *others = columns
    folded = (Column(each, overflow="fold") for each in others)
    drawn = Table(Column(first, no_wrap=True), *folded, title_justify="left")
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=PIPED)
    console.print(drawn if drawn.row_count else nothing)


def facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Empty values are left out."""
    drawn = Table.grid(padding=(0, 2))
    for name, value in pairs:
        if value:
            drawn.add_row(Text(name, style="bold"), Text(value))
    Console(soft_wrap=True).print(drawn)


def as_json(value: Any, *, indent: int | None = None) -> str:
    """Safe for a terminal: everything but printable ASCII is escaped."""
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")


def no_secret(name: str | None) -> str | None:
    """For a name that is stored and shown."""
    if name is not None and is_no_name(name):
        raise typer.BadParameter(NO_NAME)
    return name

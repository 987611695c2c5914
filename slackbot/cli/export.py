"""`signoff export`: stream the history, with the memory of one page."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console

from agent.database.pools import Database
from agent.store import views
from signoff.errors import SignoffError
from slackbot.cards import inert
from slackbot.cli import terminal
from slackbot.cli.cli_context import EmbeddedFlag, read_settings, with_database
from slackbot.cli.requests import review
from slackbot.masking import clean_text, clean_value, clean_view
from slackbot.settings import Settings

PAGE = 200


class Format(StrEnum):
    """CSV for spreadsheets, JSON lines for programs."""

    CSV = "csv"
    JSONL = "jsonl"


Record = Mapping[str, Any]

COLUMNS = (
    *(
        "kind",
        "id",
        "request_id",
        "at",
        "status",
        "agent",
        "action_description",
        "tool",
        "tool_version",
        "arguments",
    ),
    *(
        "digest",
        "revision",
        "edited",
        "facts",
        "facts_source",
        "checkpoint_id",
        "risk",
        "requester",
        "requester_asserted",
    ),
    *(
        "approvals",
        "approvals_required",
        "expires_at",
        "decided_at",
        "decided_by",
        "approved_by",
        "lapsed",
        "handed_over_at",
        "execution",
    ),
    *(
        "person",
        "verdict",
        "reason",
        "path",
        "together",
        "superseded",
        "subject",
        "seq",
        "actor",
        "event",
        "detail",
        "hash",
    ),
    *("run_id", "erased_at"),
)
"""For requests, votes and events; empty where a record has none."""


def export(
    since: Annotated[
        str | None,
        typer.Option(help="Start: a date, a time, or how long ago (30d); by default, everything."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="End, exclusive; now by default.")] = None,
    form: Annotated[Format, typer.Option("--format", help="The output format.")] = Format.JSONL,
    output: Annotated[
        Path | None,
        typer.Option(help="A file, written completely or not at all; standard output by default."),
    ] = None,
    audit: Annotated[bool, typer.Option("--audit", help="Also export the events of the audit log.")] = False,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Export requests and votes as JSON lines or CSV, with secrets masked."""
    begin = terminal.moment("--since", since) if since else datetime.fromtimestamp(0, UTC)
    end = terminal.moment("--until", until) if until else datetime.now(UTC)
    if begin >= end:
        raise typer.BadParameter("must be before --until", param_hint="--since")
    configured = read_settings()

    async def write(db: Database) -> int:
        with _target(output) as out:
            write_one = _writer(form, out)
            count = 0
            with Console(stderr=True).status("exporting") as status:
                async for record in records(db, configured, begin, end, audit=audit):
                    write_one(record)
                    count += 1
                    if count % PAGE == 0:
                        status.update(f"exporting: {count:,} records")
        return count

    try:
        count = with_database(configured, use_embedded, write)
    except BrokenPipeError:  # the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    typer.echo(f"{count:,} records", err=True)


async def records(
    db: Database, configured: Settings, since: datetime, until: datetime, *, audit: bool
) -> AsyncIterator[Record]:
    """Yield the masked records of a period: requests, then votes, then audit events if `audit` is set."""
    after = None
    while True:
        async with db.connection() as connection:
            ids = await views.requests_between(connection, since, until, after, PAGE)
            found = await views.request_views(connection, ids)
        for view in await asyncio.gather(*(clean_view(view) for view in found)):
            yield {"kind": "request", **review(configured, view)}
        if not ids:
            break
        after = ids[-1]
    async for record in _votes(db, since, until):
        yield record
    if audit:
        async for record in _events(db, since, until):
            yield record


async def _votes(db: Database, since: datetime, until: datetime) -> AsyncIterator[Record]:
    after = None
    while True:
        votes = await db.read(views.votes_between, since, until, after, PAGE)
        for vote in votes:
            yield {
                "kind": "vote",
                "id": str(vote.id),
                "request_id": str(vote.request_id),
                "at": terminal.rfc3339(vote.at),
                "revision": vote.revision,
                "digest": vote.digest.hex(),
                "person": {"team_id": vote.person.team_id, "user_id": vote.person.user_id},
                "verdict": vote.verdict.value,
                "reason": await clean_text(vote.reason) if vote.reason else None,
                "path": vote.path,
                "together": str(vote.together) if vote.together else None,
                "superseded": vote.superseded,
            }
        if not votes:
            return
        after = votes[-1].id


async def _events(db: Database, since: datetime, until: datetime) -> AsyncIterator[Record]:
    after = None
    while True:
        events = await db.read(views.events_between, since, until, after, PAGE)
        for event, previous in events:
            yield {
                "kind": "event",
                "at": terminal.rfc3339(event.at),
                "subject": event.subject,
                "seq": event.seq,
                "actor": event.actor,
                "event": event.event,
                "detail": await clean_value(dict(event.detail)),
                "previous": previous.hex(),
                "hash": event.hash.hex(),
            }
        if not events:
            return
        after = events[-1][0]


def _writer(form: Format, out: TextIO) -> Any:
    if form is Format.JSONL:
        return lambda record: out.write(f"{terminal.as_json(record)}\n")
    csv_writer = csv.writer(out)
    csv_writer.writerow(COLUMNS)
    return lambda record: csv_writer.writerow(row(record))


def row(record: Record) -> list[str]:
    """A formula becomes text: it gets an apostrophe, within cells, too."""
    action = record.get("action") or {}
    flat = {**record, **{name: action.get(name) for name in ("tool", "tool_version", "arguments")}}
    flat["at"] = record.get("at") or record.get("timestamp")
    return [_cell(flat.get(name)) for name in COLUMNS]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, Mapping) and value.keys() == {"team_id", "user_id"}:
        return f"{value['team_id']}/{value['user_id']}"
    plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return inert.cell(plain)


@contextmanager
def _target(path: Path | None) -> Iterator[TextIO]:
    """A file is private, and appears when it is complete."""
    if path is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    try:
        with NamedTemporaryFile("w", encoding="utf-8", newline="", dir=path.parent, delete=False) as draft:
            try:
                yield draft  # type: ignore[misc]
                draft.close()
                Path(draft.name).replace(path)
            except BaseException:
                Path(draft.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise SignoffError(f"--output: cannot write {path}: {error.strerror}") from None

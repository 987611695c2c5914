"""`signoff audit`: print and verify the chains of the audit log."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Annotated, TextIO

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from agent.database.pools import Database
from agent.usecases import audit as audit_log
from signoff.errors import SignoffError
from signoff.gate.options import duration
from slackbot.cli import terminal
from slackbot.cli.cli_context import EmbeddedFlag, database_url, read_settings, with_database_at
from slackbot.masking import clean_now

EVERY = 10.0
"""Seconds between lines of progress where there is no terminal."""

CHAINS = {"chains"}
"""What is counted in events; the other parts follow quickly."""

commands = typer.Typer(no_args_is_help=True, help="Verify the audit log.")


@commands.command()
def heads(use_embedded: EmbeddedFlag = False) -> None:
    """Print the head of every chain, one JSON object per line: keep it elsewhere, for `verify --heads`."""
    configured = read_settings()

    async def write(db: Database) -> None:
        async for head in audit_log.heads(db):
            typer.echo(json.dumps(_head_as_json(head)))

    with database_url(configured, use_embedded, migrate=False) as url:
        with_database_at(configured, url, write)


@commands.command()
def verify(
    kept: Annotated[
        Path | None,
        typer.Option(
            "--heads",
            exists=True,
            dir_okay=False,
            help="A file that `signoff audit heads` printed earlier, to be compared.",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="A file of what is verified. It is written; where it exists, events in it are not read again.",
        ),
    ] = None,
    again: Annotated[
        str, typer.Option(help="With --resume: read events again that were last read so long ago.")
    ] = "7d",
    progress: Annotated[
        bool | None,
        typer.Option(help="Show progress on standard error; by default, if that is a terminal."),
    ] = None,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Verify every chain, and all votes, decisions and attempts against them; exit code 1 if anything differs.

    With --resume FILE, a run goes on where the last one ended or was interrupted. Of a chain in the file it checks that
    the event of the verified head is still there with its hash, that none before it is missing, and all that came
    after it. It does not read the events before it again: one that was changed in place, its hash left as it was and
    the row that it tells of changed with it, is found by the first run after --again, or by one without --resume. Every
    row that consent rests on is compared with its events in each run. Keep the file where the database's owner cannot
    write.
    """
    configured = read_settings()
    since = datetime.now(UTC) - duration("--again", again)
    if kept is not None:
        _check(_read_heads(kept))
    with (
        _resumption(resume, since) as resumption,
        _progress(sys.stderr.isatty() if progress is None else progress) as show,
        database_url(configured, use_embedded, migrate=False) as url,
    ):
        events, problems = with_database_at(
            configured,
            url,
            audit_log.find_problems,
            _read_heads(kept) if kept is not None else (),
            resumption=resumption,
            on_progress=show,
        )
    for problem in problems:
        typer.echo(terminal.line(clean_now(str(problem))), err=True)
    typer.echo(f"{events} events verified, {len(problems)} problems")
    raise SystemExit(1 if problems else 0)


def _head_as_json(head: audit_log.Head) -> dict[str, object]:
    return {"subject": head.subject, "seq": head.seq, "hash": head.hash.hex()}


def _read_heads(kept: Path) -> Iterator[audit_log.Head]:
    for line in _lines(kept, "`signoff audit heads`"):
        yield line[0]


def _lines(path: Path, writer: str) -> Iterator[tuple[audit_log.Head, object]]:
    """Raises typer.BadParameter for anything but heads. The last line may be torn off by a crash."""
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                if line.strip() and (line.endswith("\n") or _is_whole(line)):
                    each = json.loads(line)
                    head = audit_log.Head(str(each["subject"]), int(each["seq"]), bytes.fromhex(each["hash"]))
                    yield head, each.get("verified")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise typer.BadParameter(f"{path} is not output of {writer}: {error}") from error


def _is_whole(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


@contextmanager
def _resumption(path: Path | None, again: datetime) -> Iterator[audit_log.Resumption | None]:
    """What is verified goes to `FILE.part`, which replaces the file at the end, or else is read first next time."""
    if path is None:
        yield None
        return
    part, both = (path.with_name(f"{path.name}.{kind}") for kind in ("part", "both"))
    with ExitStack() as stack:
        try:
            lock = stack.enter_context(path.with_name(f"{path.name}.lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if part.exists():
                with both.open("w", encoding="utf-8") as file:
                    for each in _both(part, path):
                        _write_line(file, each)
                    _keep_on_disk(file)
                both.replace(path)
            out = stack.enter_context(part.open("w", encoding="utf-8"))
        except BlockingIOError:
            raise SignoffError(f"--resume: another run writes {path}") from None
        except OSError as error:
            raise SignoffError(f"--resume: cannot write {path}: {error.strerror}") from None
        _check(_read_verified(path))

        def finish() -> None:
            _keep_on_disk(out)
            out.close()
            part.replace(path)

        yield audit_log.Resumption(
            _read_verified(path), lambda verified: _write_line(out, verified), finish, again
        )


def _check(lines: Iterator[object]) -> None:
    """Before an hour's work."""
    deque(lines, maxlen=0)


def _both(part: Path, path: Path) -> Iterator[audit_log.VerifiedHead]:
    """An interrupted run's, then those of the run before it that it did not come to; both have one order."""
    earlier = _read_verified(path)
    next_one = next(earlier, None)
    for each in _read_verified(part):
        yield each
        if next_one is not None and next_one.head.subject == each.head.subject:
            next_one = next(earlier, None)
    if next_one is not None:
        yield next_one
        yield from earlier


def _keep_on_disk(file: TextIO) -> None:
    """An empty file in place of the last would forget what was verified."""
    file.flush()
    os.fsync(file.fileno())


def _read_verified(path: Path) -> Iterator[audit_log.VerifiedHead]:
    """A head that does not say when it was verified is compared, and its chain read."""
    if path.exists():
        for head, at in _lines(path, "`signoff audit verify --resume`"):
            when = datetime.fromisoformat(str(at)) if at else datetime.min.replace(tzinfo=UTC)
            yield audit_log.VerifiedHead(head, when)


def _write_line(file: TextIO, verified: audit_log.VerifiedHead) -> None:
    line = _head_as_json(verified.head) | {"verified": terminal.rfc3339(verified.at)}
    file.write(f"{json.dumps(line)}\n")


@contextmanager
def _progress(wanted: bool) -> Iterator[audit_log.OnProgress]:
    begun = monotonic()
    if not wanted:
        yield lambda *_: None
    elif sys.stderr.isatty():
        rate = TextColumn("{task.fields[rate]} events/s")
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            rate,
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
            task = drawn.add_task("chains", rate="")
            yield lambda part, done, total: drawn.update(
                task, description=part, completed=done, total=max(done, total), rate=_rate(done, begun)
            )
    else:
        said, parts = begun, CHAINS.copy()

        def say(part: str, done: int, total: int) -> None:
            nonlocal said
            if monotonic() - said >= EVERY or part not in parts:
                said = monotonic()
                parts.add(part)
                so_far = f": {done:,} of {total:,} events, {_rate(done, begun)} a second"
                typer.echo(f"{part}{so_far if part in CHAINS else ''}", err=True)

        yield say


def _rate(done: int, begun: float) -> str:
    return f"{done / max(monotonic() - begun, 1e-9):,.0f}"

"""`signoff audit`: print and verify the chains of the audit log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from agent.usecases import audit as audit_log
from slackbot.cli import terminal
from slackbot.cli.cli_context import EmbeddedFlag, database_url, read_settings, with_database_at
from slackbot.masking import clean_now

commands = typer.Typer(no_args_is_help=True, help="Verify the audit log.")


@commands.command()
def heads(use_embedded: EmbeddedFlag = False) -> None:
    """Print the head of every chain, one JSON object per line: keep it elsewhere, for `verify --heads`."""
    configured = read_settings()
    with database_url(configured, use_embedded, migrate=False) as url:
        found = with_database_at(configured, url, audit_log.heads)
    for head in found:
        typer.echo(json.dumps({"subject": head.subject, "seq": head.seq, "hash": head.hash.hex()}))


@commands.command()
def verify(
    kept: Annotated[
        Path | None,
        typer.Option(
            "--heads", exists=True, dir_okay=False, help="A file that `signoff audit heads` printed earlier."
        ),
    ] = None,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Verify every chain, and all votes, decisions and attempts against them; exit code 1 if anything differs."""
    earlier = _read_heads(kept) if kept is not None else []
    configured = read_settings()
    with database_url(configured, use_embedded, migrate=False) as url:
        events, problems = with_database_at(configured, url, audit_log.find_problems, earlier)
    for problem in problems:
        typer.echo(terminal.line(clean_now(str(problem))), err=True)
    typer.echo(f"{events} events verified, {len(problems)} problems")
    raise SystemExit(1 if problems else 0)


def _read_heads(kept: Path) -> list[audit_log.Head]:
    try:
        lines = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines() if line.strip()]
        return [
            audit_log.Head(str(each["subject"]), int(each["seq"]), bytes.fromhex(each["hash"]))
            for each in lines
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise typer.BadParameter(f"{kept} is not output of `signoff audit heads`: {error}") from error

"""`signoff audit`: verify the audit log."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from agent.usecases import audit as audit_log
from slackbot.cli.cli_context import EmbeddedFlag, check_schema, database_url, open_database, read_settings
from slackbot.masking import clean_now
from slackbot.settings import Settings

commands = typer.Typer(no_args_is_help=True, help="Verify the audit log.")


@commands.callback()
def audit() -> None:
    """Verify the audit log."""


@commands.command()
def heads(use_embedded: EmbeddedFlag = False) -> None:
    """Print where every chain ends, one JSON object a line: keep it elsewhere, for `verify --heads`."""
    configured = read_settings()
    with database_url(configured, use_embedded, migrate=False) as url:
        check_schema(configured, url)
        found = asyncio.run(_heads(configured, url))
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
    """Verify every chain, and all votes, decisions and attempts against them; exit code 1 when something differs."""
    earlier = _read_heads(kept) if kept is not None else []
    configured = read_settings()
    with database_url(configured, use_embedded, migrate=False) as url:
        check_schema(configured, url)
        events, problems = asyncio.run(_verify(configured, url, earlier))
    for problem in problems:
        typer.echo(clean_now(str(problem)), err=True)
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


async def _heads(configured: Settings, url: str) -> list[audit_log.Head]:
    async with open_database(configured, url) as database:
        return await audit_log.heads(database)


async def _verify(
    configured: Settings, url: str, earlier: list[audit_log.Head]
) -> tuple[int, list[audit_log.ChainProblem]]:
    async with open_database(configured, url) as database:
        return await audit_log.find_problems(database, earlier)

"""`signoff doctor`: test everything that the service needs."""

from __future__ import annotations

import asyncio

from rich.console import Console
from rich.markup import escape

from agent.domain.policy import Policy
from signoff.errors import SignoffError
from slackbot.cli.cli_context import EmbeddedFlag, database_url, open_database, read_policy, read_settings
from slackbot.masking import clean_now
from slackbot.settings import Settings


def doctor(use_embedded: EmbeddedFlag = False) -> None:
    """Test everything that the service needs, and say how to fix what is wrong.

    The exit code is 1 if anything is wrong.
    """
    configured = read_settings()
    policy = _policy(configured)
    url = configured.database_url
    if url is None and not use_embedded:
        raise SystemExit(asyncio.run(_examine(configured, policy, None)))
    with database_url(configured, use_embedded) as address:
        raise SystemExit(asyncio.run(_examine(configured, policy, address)))


def _policy(configured: Settings) -> Policy | SignoffError:
    try:
        return read_policy(configured)
    except SignoffError as error:
        return error


async def _examine(configured: Settings, policy: Policy | SignoffError, url: str | None) -> int:
    from slackbot.service import doctor as doctoring  # noqa: PLC0415 - OpenAI's client takes a second to import

    database = open_database(configured, url) if url else None
    console, failed = Console(soft_wrap=True), 0
    try:
        async for finding in doctoring.examine(configured, policy, database, url):
            mark = "[green]✓[/]" if finding.well else "[red]✗[/]"
            detail = clean_now(finding.detail, assigned=False).replace("\n", "\n    ")
            console.print(f"{mark} [bold]{escape(finding.part)}[/]: {escape(detail)}")
            if not finding.well:
                failed += 1
                console.print(f"    → {escape(finding.remedy)}")
    finally:
        if database is not None:
            await database.close()
    return 1 if failed else 0

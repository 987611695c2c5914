"""`signoff check --pending`: open work that the code and the policy of this directory would strand."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import typer

from agent.database.pools import Database
from agent.domain.policy import Policy
from agent.runtime.agents import Registry
from agent.runtime.checks.upgrade_check import Remedy, StrandedItem, find_stranded
from agent.usecases import requests, runs
from signoff.errors import SignoffError
from slackbot.cli import terminal
from slackbot.cli.cli_context import with_database
from slackbot.masking import clean_descriptions
from slackbot.settings import Settings

REASON = "the service's new version cannot continue it"
ASKED_AGAIN = "asked again under the service's new version"


class OpenWorkChoice(StrEnum):
    """A choice for work that an upgrade would strand: leave it, ask people again, or cancel it."""

    KEEP = "keep"
    ASK_AGAIN = "re-ask"
    CANCEL = "cancel"


def check_pending(
    configured: Settings, policy: Policy, registry: Registry, choice: OpenWorkChoice, *, use_embedded: bool
) -> None:
    """Exits with 1 if stranded work is left. Raises SignoffError where every run would count as stranded."""

    async def look(db: Database) -> tuple[list[tuple[StrandedItem, str]], int]:
        found = await find_stranded(db, registry, policy)
        if found and not list(registry):
            raise SignoffError(
                "no agents are loaded, so every open run would count as stranded; name their modules, as in: "
                "SIGNOFF_AGENTS=my_agents signoff check --pending"
            )
        outcomes = [await _resolve(db, each, choice) for each in found]
        shown = [
            (each, (await clean_descriptions([each.call.description]))[0] if each.call else "the whole run")
            for each in found
        ]
        return shown, outcomes.count(False)

    found, left = with_database(configured, use_embedded, look)
    terminal.table(
        ["run", "request", "agent", "what", "why it would be stranded", "remedy"],
        [_row(each, what) for each, what in found],
        nothing="no open work would be stranded",
    )
    if found and choice is not OpenWorkChoice.KEEP:
        typer.echo(f"{len(found) - left:,} dealt with ({choice.value}), {left:,} left unchanged")
    if left:
        raise typer.Exit(1)


def _row(each: StrandedItem, what: str) -> Sequence[str]:
    call = each.call
    about = f"{call.tool}: {what}" if call else what
    approved = " (approved)" if call and call.state == "ready" and call.request_id else ""
    return [
        str(each.run_id),
        f"{call.request_id}{approved}" if call and call.request_id else "",
        terminal.line(each.agent, 40),
        terminal.line(about, 80),
        terminal.line(each.why, 160),
        f"--{OpenWorkChoice.ASK_AGAIN} or --{OpenWorkChoice.CANCEL}"
        if each.remedy is Remedy.ASK_AGAIN
        else f"--{OpenWorkChoice.CANCEL}",
    ]


async def _resolve(db: Database, each: StrandedItem, choice: OpenWorkChoice) -> bool:
    """Whether the work is no longer stranded. The service asks again about approved calls, once it runs."""
    actor, call = terminal.actor(), each.call
    if choice is OpenWorkChoice.KEEP or (
        choice is OpenWorkChoice.ASK_AGAIN and each.remedy is not Remedy.ASK_AGAIN
    ):
        return False
    if call is None:
        return await runs.cancel_by_operator(db, each.run_id, actor, REASON)
    if choice is OpenWorkChoice.ASK_AGAIN:
        if call.state == "ready" or call.request_id is None:
            return True
        return await requests.withdraw_and_rejudge(db, call.request_id, ASKED_AGAIN, principal=actor)
    if call.state == "ready" or call.request_id is None:
        return await requests.call_off(db, call.id, REASON, principal=actor)
    return await requests.withdraw(db, call.request_id, None, REASON, principal=actor)

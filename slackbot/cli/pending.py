"""`signoff check --pending`: what is open and would be stranded by the code and the policy of this folder."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import typer

from agent import approvals, executions, runs
from agent.domain.policy import Policy
from agent.runtime.agents import Registry
from agent.runtime.stranding import Remedy, Stranded, stranded
from agent.store.database import Database
from slackbot.cli import terminal
from slackbot.cli.ground import on_database
from slackbot.secrets import clean_text
from slackbot.settings import Settings

REASON = "the service's new version cannot go on with it"
ASKED_ANEW = "asked again under the service's new version"


class Choice(StrEnum):
    """What becomes of what would be stranded."""

    KEEP = "keep"
    ASK_AGAIN = "re-ask"
    CANCEL = "cancel"


def check_pending(
    configured: Settings, policy: Policy, registry: Registry, choice: Choice, *, use_embedded: bool
) -> None:
    """List it, and do what was chosen; exits with 1 when anything of it is left as it was."""

    async def look(db: Database) -> tuple[list[tuple[Stranded, str]], int]:
        found = await stranded(db, registry, policy)
        fates = [await _deal(db, each, choice) for each in found]
        shown = [
            (each, await clean_text(each.call.description) if each.call else "the whole run")
            for each in found
        ]
        return shown, fates.count(False)

    found, left = on_database(configured, use_embedded, look)
    terminal.table(
        ["run", "request", "agent", "what", "why it would be stranded", "remedy"],
        [_row(each, what) for each, what in found],
        nothing="nothing that is open would be stranded",
    )
    if found and choice is not Choice.KEEP:
        typer.echo(f"{len(found) - left:,} dealt with ({choice.value}), {left:,} left as they were")
    if left:
        raise typer.Exit(1)


def _row(each: Stranded, what: str) -> Sequence[str]:
    call = each.call
    about = f"{call.tool}: {what}" if call else what
    approved = " (approved)" if call and call.state == "ready" and call.request_id else ""
    return [
        str(each.run_id),
        f"{call.request_id}{approved}" if call and call.request_id else "",
        terminal.line(each.agent, 40),
        terminal.line(about, 80),
        terminal.line(each.why, 160),
        f"--{Choice.ASK_AGAIN} or --{Choice.CANCEL}"
        if each.remedy is Remedy.ASK_AGAIN
        else f"--{Choice.CANCEL}",
    ]


async def _deal(db: Database, each: Stranded, choice: Choice) -> bool:
    """Whether it is not stranded any more. What was approved is asked again by the service itself, once it runs."""
    actor, call = terminal.actor(), each.call
    if choice is Choice.KEEP or (choice is Choice.ASK_AGAIN and each.remedy is not Remedy.ASK_AGAIN):
        return False
    if call is None:
        return await runs.cancel_by_operator(db, each.run_id, actor, REASON)
    if choice is Choice.ASK_AGAIN:
        if call.state == "ready" or call.request_id is None:
            return True
        return await approvals.ask_anew(db, call.request_id, ASKED_ANEW, principal=actor)
    if call.state == "ready" or call.request_id is None:
        return await executions.call_off(db, call.id, REASON, principal=actor)
    return await approvals.withdraw(db, call.request_id, None, REASON, principal=actor)

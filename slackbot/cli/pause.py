"""`signoff pause` and `signoff resume`: the stop switch."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.database.pools import Database
from agent.domain.pause import Pause
from agent.domain.spelling import meant
from agent.usecases import pause as stop_switch
from slackbot.cli import terminal
from slackbot.cli.cli_context import EmbeddedFlag, read_settings, with_database
from slackbot.masking import clean_now

Agent = Annotated[str | None, typer.Argument(help="An agent's name; all agents by default.")]


def pause(
    agent: Agent = None,
    reason: Annotated[str | None, typer.Option(help="The reason, for the audit log.")] = None,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Stop one agent, or all: no call begins, approved or not.

    Calls that are already running finish.
    """
    _turn(agent, reason, use_embedded, stop=True)


def resume(agent: Agent = None, use_embedded: EmbeddedFlag = False) -> None:
    """Resume a paused agent, or all; calls approved in the meantime begin."""
    _turn(agent, None, use_embedded, stop=False)


def _turn(agent: str | None, reason: str | None, use_embedded: bool, *, stop: bool) -> None:
    turned, now, known = with_database(read_settings(), use_embedded, _turned, agent, reason, stop=stop)
    who = f"agent {agent}" if agent else "every agent"
    if stop:
        typer.echo(clean_now(f"{who} is paused" if turned else f"{who} was already paused"))
    else:
        nothing = f"{who} was not paused" if agent else "there was no pause for all agents"
        typer.echo(clean_now(f"{who} is resumed" if turned else nothing))
    if stop and agent and agent not in known:
        words = f'signoff: no agent named "{agent}" has ever run here{meant(agent, known)}'
        typer.echo(clean_now(words), err=True)
    for each in now:
        why = f": {each.reason}" if each.reason else ""
        since = terminal.when(each.since)
        typer.echo(clean_now(f"paused now: {each.agent or 'every agent'}, by {each.by}, since {since}{why}"))


async def _turned(
    db: Database, agent: str | None, reason: str | None, *, stop: bool
) -> tuple[bool, list[Pause], list[str]]:
    by = terminal.actor()
    if stop:
        turned = await stop_switch.pause(db, agent, by=by, reason=reason)
    else:
        turned = await stop_switch.resume(db, agent, by=by)
    return turned, await stop_switch.active_pauses(db), await stop_switch.known_agents(db)

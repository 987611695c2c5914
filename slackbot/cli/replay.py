"""`signoff check replay`: past actions under another policy file."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from agent.database.pools import Database
from agent.domain.errors import NotFound, PolicyError
from agent.domain.observation import described
from agent.domain.policy import Policy
from agent.domain.replay import Changed, Totals
from agent.domain.replay import replay as replay_all
from agent.domain.short_ids import short_id
from agent.usecases import judgements
from agent.usecases import policy as policies
from slackbot.cli import terminal
from slackbot.cli.cli_context import EmbeddedFlag, read_policy, read_settings, with_database
from slackbot.settings import Settings


def replay(
    policy: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="The checkpoints file to try.")
    ] = None,
    since: Annotated[str, typer.Option(help="Start: a time, or how long ago, such as 30d.")] = "30d",
    show: Annotated[int, typer.Option(min=0, help="How many of the latest changed verdicts to list.")] = 20,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Evaluate recent actions under this file: which verdicts change, and how people decided."""
    configured = read_settings(checkpoints=None if policy is None else str(policy))
    trying, start = read_policy(configured), terminal.moment("--since", since)
    totals, changed = with_database(configured, use_embedded, _replay, configured, trying, start, show)
    if show:
        terminal.table(
            ["when", "tool", "was", "would be", "people said", "request"],
            [_row(each) for each in changed],
            nothing="no verdict changes, and no terms of an approval",
        )
    for line in _summary(totals):
        typer.echo(line)


async def _replay(
    db: Database, configured: Settings, policy: Policy, since: datetime, show: int
) -> tuple[Totals, deque[Changed]]:
    totals, latest, earlier = Totals(), deque[Changed](maxlen=show), dict[int, Policy]()
    async for page in judgements.recorded(db, since):
        for epoch in {each.epoch for each in page if each} - earlier.keys():
            with suppress(NotFound, PolicyError):  # then only verdicts are compared
                stored = await policies.find(db, epoch)
                earlier[epoch] = configured.read_policy(stored.source, f"policy {epoch}")
        latest.extend(replay_all(policy, page, totals, earlier))
    return totals, latest


def _row(each: Changed) -> tuple[str, ...]:
    was = each.recorded
    return (
        terminal.when(was.at),
        terminal.line(was.inputs.action.tool, 60),
        _verdict(was.verdict, was.checkpoint_id),
        _verdict(each.verdict, each.checkpoint_id, ", ".join(f"{t.field} {t.direction}" for t in each.terms)),
        was.outcome or "",
        short_id(was.request_id) if was.request_id else "",
    )


def _verdict(verdict: str, checkpoint_id: str | None, terms: str = "") -> str:
    named = f"{verdict} ({checkpoint_id})" if checkpoint_id else verdict
    return terminal.line(f"{named}: {terms}" if terms else named, 120)


def _summary(totals: Totals) -> list[str]:
    lines = [f"{totals.judged:,} evaluations were replayed"]
    lines += [
        f"  {was} → {now}: {number:,}" for (was, now), number in sorted(totals.verdicts.items()) if was != now
    ]
    if totals.other_checkpoint:
        lines.append(f"  the same verdict by another checkpoint: {totals.other_checkpoint:,}")
    lines += [
        f"  asked in both, with {field} {direction}: {number:,}"
        for (field, direction), number in sorted(totals.terms.items())
    ]
    lines += [
        f"  would {now} and had been asked; people said {said}: {number:,}"
        for (now, said), number in sorted(totals.said.items())
    ]
    lines += [f"  observed {each.checkpoint_id}: {described(each)}" for each in totals.observed.values()]
    if totals.erased:
        lines.append(f"{totals.erased:,} could not be replayed: their content is erased")
    return lines

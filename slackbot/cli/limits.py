"""`signoff limits`: the use of limits over time."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Annotated

import typer

from agent.database.pools import Database
from agent.domain import checkpoints
from agent.domain.limits import Limit, length, written
from agent.domain.policy import Policy
from agent.store.limits import SubjectUse
from agent.usecases import limits as limits_over_time
from agent.usecases import policy
from slackbot.cli import terminal
from slackbot.cli.cli_context import EmbeddedFlag, read_policy, read_settings, with_database

JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print one JSON object per line, with amounts as exact strings.")
]
MOST = 50
"""Those with the most use."""


def limits(as_json: JsonFlag = False, use_embedded: EmbeddedFlag = False) -> None:
    """Show the use of each limit over time under the policy in force, by subject.

    `waiting` is what people are being asked about.
    """
    configured = read_settings()

    async def read(db: Database) -> tuple[Policy, list[SubjectUse]]:
        stored = await policy.in_force(db)
        if stored is None:
            now = read_policy(configured)
        else:
            now = checkpoints.load(stored.source, filename=f"policy {stored.epoch}")
        return now, await limits_over_time.by_subject(db, now.limits, most=MOST)

    now, found = with_database(configured, use_embedded, read)
    named = {limit.name: limit for limit in now.limits}
    if as_json:
        for each in found:
            shown = {"limit": each.limit, "subject": each.subject, "used": str(each.used)}
            numbers = {"waiting": str(each.waiting), "max": str(named[each.limit].max)}
            typer.echo(json.dumps({**shown, **numbers}))
        return
    amounts = [(named[each.limit], each.subject, each.used, each.waiting) for each in found]
    unused = [limit for limit in named.values() if limit.name not in {each.limit for each in found}]
    rows = [*amounts, *((limit, "", Decimal(0), Decimal(0)) for limit in unused)]
    terminal.table(
        ["limit", "whose", "used", "waiting", "max", "of", "in", "then"],
        [
            [limit.name, terminal.line(subject, 80), written(used), written(waiting), *_bounds(limit)]
            for limit, subject, used, waiting in rows
        ],
        nothing="the policy has no limits over time",
    )


def _bounds(limit: Limit) -> list[str]:
    return [written(limit.max), limit.of, length(limit.within), limit.then]

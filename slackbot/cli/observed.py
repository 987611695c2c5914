"""`signoff policy observed`: what observed checkpoints would have asked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from agent.database.pools import Database
from agent.domain.observation import ObservedCount
from agent.domain.rules import ObservedRule, Rule
from agent.domain.short_ids import short_id
from agent.usecases import observations
from agent.usecases import policy as policies
from agent.usecases.observations import ObservedExample
from slackbot.cli import terminal
from slackbot.cli.cli_context import EmbeddedFlag, read_policy, read_settings, with_database
from slackbot.masking import clean_descriptions

Rules = dict[tuple[str, str], ObservedRule]
"""By checkpoint and version."""
JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print one JSON object per line, one for each checkpoint.")
]


def observed(
    since: Annotated[str, typer.Option(help="Start: a time, or how long ago, such as 7d.")] = "30d",
    examples: Annotated[int, typer.Option(min=0, max=100, help="How many examples to show for each.")] = 3,
    as_json: JsonFlag = False,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Show what observed checkpoints would have asked, under this policy and earlier ones.

    `asked anyway`: by another rule. `would run`: was asked, and would not be if the checkpoint were in force. Changing
    a checkpoint resets its count.
    """
    configured, start = read_settings(), terminal.moment("--since", since)

    async def read(db: Database) -> tuple[Rules, list[ObservedCount], list[str]]:
        stored = await policies.in_force(db)
        if stored is None:
            now = read_policy(configured)
        else:
            now = configured.read_policy(stored.source, f"policy {stored.epoch}")
        rules = {(each.rule.checkpoint_id, each.version): each for each in now.observed}
        counted, found = await observations.observed(db, now, start, examples=examples)
        known = [(each, rules.get((each.checkpoint_id, each.version))) for each in found]
        return rules, counted, [await _example(each, rule.rule) for each, rule in known if rule]

    rules, counted, found = with_database(configured, use_embedded, read)
    shown = [(each, rules.get((each.checkpoint_id, each.version))) for each in counted]
    if as_json:
        for count, rule in shown:
            typer.echo(terminal.as_json(_json(count, rule)))
        return
    terminal.table(
        ["checkpoint", "evaluated", "would ask", "asked anyway", "would run", "since", "until"],
        [_row(count, rule) for count, rule in shown],
        nothing="the policy has no observed checkpoint",
    )
    for line in found:
        typer.echo(line)


def _row(count: ObservedCount, rule: ObservedRule | None) -> tuple[str, ...]:
    numbers = (count.judged, count.asks, count.asked_anyway, count.frees)
    return (
        count.checkpoint_id,
        *map("{:,}".format, numbers),
        terminal.when(count.first),
        _until(count, rule),
    )


def _until(count: ObservedCount, rule: ObservedRule | None) -> str:
    if rule is None:
        return f"{terminal.when(count.last)} (not in force)"
    over = " (over: it does nothing)" if rule.until <= datetime.now(UTC) else ""
    return f"{terminal.when(rule.until)}{over}"


async def _example(each: ObservedExample, rule: Rule) -> str:
    said = {"ask": "was asked anyway", "run": "ran", "deny": "was denied"}[each.verdict]
    asked = f", request {short_id(each.request_id)}" if each.request_id else ""
    [what] = await clean_descriptions([rule.describe(each.action, each.facts)])
    return terminal.line(f"{each.checkpoint_id}: {terminal.when(each.at)} {what} ({said}{asked})", 400)


def _json(count: ObservedCount, rule: ObservedRule | None) -> dict[str, Any]:
    return {
        "checkpoint_id": count.checkpoint_id,
        "in_force": rule is not None,
        "evaluated": count.judged,
        "would_ask": count.asks,
        "asked_anyway": count.asked_anyway,
        "would_run": count.frees,
        "first": terminal.rfc3339(count.first),
        "last": terminal.rfc3339(count.last),
        "observe_until": terminal.rfc3339(rule.until if rule else None),
    }

"""Limits over time: when the question was asked, and as a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from agent.domain.limits import COUNT, Limit, LimitView, length, written
from agent.domain.request_view import RequestView
from signoff.formats import NO_MONEY, Money
from signoff.json_paths import is_redacted
from slackbot.cards import blocks, inert
from slackbot.cards.values import Card, Json

MOST = 5
WHY = "No room for this without approval."


def parts(view: RequestView) -> list[Json]:
    """Return a card's limits, reached ones first, at most five with the rest counted; empty without any."""
    shown = [blocks.section(blocks.text(line(view, each))) for each in in_order(view)[:MOST]]
    more = len(view.limits) - len(shown)
    if more > 0:
        shown.append(blocks.section(blocks.text(f"{more:,} more")))
    return [blocks.section(blocks.text("Limits", bold=True)), blocks.bullets(shown)] if shown else []


def in_order(view: RequestView) -> list[LimitView]:
    """Return a request's limits, those that are reached first; otherwise their order is kept."""
    return sorted(view.limits, key=lambda each: not each.reached)


def line(view: RequestView, limit: LimitView) -> str:
    """Return a limit as its request shows it: `refunds: 4,960 of 5,000 used in 24h, 999 waiting. …`."""
    root, *steps = limit.of.split(".")
    hidden = is_redacted(tuple(steps), view.rule.redact, root)
    money = Money.declared(view.rule.money).below(root, *steps)
    numbers = standing(
        limit.of, limit.within, limit.used, limit.waiting, limit.max, hidden=hidden, money=money
    )
    return f"{inert.line(limit.name, 64)}: {numbers}{f'. {WHY}' if limit.reached else ''}"


def standing(
    of: str,
    within: timedelta,
    used: Decimal,
    waiting: Decimal,
    most: Decimal,
    *,
    hidden: bool,
    money: Money = NO_MONEY,
) -> str:
    """`4,960 of 5,000 used in 24h, 999 waiting`; without amounts where they are masked."""
    if hidden:
        return f"within {length(within)}"
    unit = " calls" if of == COUNT else ""
    asked = f", {written(waiting, money)} waiting" if waiting else ""
    return f"{written(used, money)} of {written(most, money)}{unit} used in {length(within)}{asked}"


MOST_LISTED = 40


@dataclass(frozen=True, slots=True)
class LimitLine:
    """A row in the list of limits: how much of a limit is used, how much waits, and for whom."""

    limit: Limit
    whose: str
    """An agent, or the reader; empty for the total."""
    used: Decimal
    waiting: Decimal
    hidden: bool = False
    """The amounts are masked."""
    money: Money = NO_MONEY


def limit_list(lines: Sequence[LimitLine]) -> Card:
    """Return the answer that lists limits over time, at most 40; a sentence if the policy has none."""
    if not lines:
        return Card("The policy has no limits over time.", [])
    heading = blocks.section(blocks.text("Limits over time", bold=True))
    return Card(
        "1 limit" if len(lines) == 1 else f"{len(lines):,} limits",
        blocks.with_ids([blocks.rich_text(heading, limits_of(lines, MOST_LISTED))], "limits"),
    )


def limits_of(lines: Sequence[LimitLine], most: int) -> Json:
    """Return up to `most` limits as bullets; a last one counts the rest and names the command for them."""
    shown = [limit_words(each) for each in lines[:most]]
    if (more := len(lines) - most) > 0:
        shown.append(f"… and {more:,} more: `signoff limits` lists all of them")
    return blocks.bullets(blocks.section(blocks.text(each)) for each in shown)


def limit_words(line: LimitLine) -> str:
    """Return a limit as lists show it: `refunds for agent billing: 4,960 of 5,000 used in 24h, 999 waiting. …`."""
    limit = line.limit
    numbers = standing(
        limit.of, limit.within, line.used, line.waiting, limit.max, hidden=line.hidden, money=line.money
    )
    whose = f" for {inert.line(line.whose, 80)}" if line.whose else ""
    beyond = "calls are denied" if limit.then == "deny" else "people are asked"
    return f"{limit.name}{whose}: {numbers}. Beyond it, {beyond}."

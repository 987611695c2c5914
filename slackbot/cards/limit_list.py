from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from agent.domain.limits import Limit
from signoff.formats import NO_MONEY, Money
from slackbot.cards import blocks, inert
from slackbot.cards.limits import standing
from slackbot.cards.values import Card, Json

MOST = 40


@dataclass(frozen=True, slots=True)
class LimitLine:
    limit: Limit
    whose: str
    """An agent, or the reader; empty for the total."""
    used: Decimal
    waiting: Decimal
    hidden: bool = False
    """The amounts are masked."""
    money: Money = NO_MONEY


def limit_list(lines: Sequence[LimitLine]) -> Card:
    if not lines:
        return Card("The policy has no limits over time.", [])
    heading = blocks.section(blocks.text("Limits over time", bold=True))
    return Card(
        "1 limit" if len(lines) == 1 else f"{len(lines):,} limits",
        blocks.with_ids([blocks.rich_text(heading, limits_of(lines, MOST))], "limits"),
    )


def limits_of(lines: Sequence[LimitLine], most: int) -> Json:
    shown = [limit_words(each) for each in lines[:most]]
    if (more := len(lines) - most) > 0:
        shown.append(f"… and {more:,} more: `signoff limits` lists all of them")
    return blocks.bullets(blocks.section(blocks.text(each)) for each in shown)


def limit_words(line: LimitLine) -> str:
    """`refunds for agent billing: 4,960 of 5,000 used in 24h, 999 waiting. Beyond it, people are asked.`"""
    limit = line.limit
    numbers = standing(
        limit.of, limit.within, line.used, line.waiting, limit.max, hidden=line.hidden, money=line.money
    )
    whose = f" for {inert.line(line.whose, 80)}" if line.whose else ""
    beyond = "calls are denied" if limit.then == "deny" else "people are asked"
    return f"{limit.name}{whose}: {numbers}. Beyond it, {beyond}."

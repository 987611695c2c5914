"""The limits over time when the question was asked."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from agent.domain.limits import COUNT, LimitView, length, written
from agent.domain.request_view import RequestView
from signoff.formats import NO_MONEY, Money
from signoff.json_paths import is_redacted
from slackbot.cards import blocks, inert
from slackbot.cards.values import Json

MOST = 5
WHY = "No room for this without approval."


def parts(view: RequestView) -> list[Json]:
    shown = [blocks.section(blocks.text(line(view, each))) for each in in_order(view)[:MOST]]
    more = len(view.limits) - len(shown)
    if more > 0:
        shown.append(blocks.section(blocks.text(f"{more:,} more")))
    return [blocks.section(blocks.text("Limits", bold=True)), blocks.bullets(shown)] if shown else []


def in_order(view: RequestView) -> list[LimitView]:
    return sorted(view.limits, key=lambda each: not each.reached)


def line(view: RequestView, limit: LimitView) -> str:
    """`refunds: 4,960 of 5,000 used in 24h, 999 waiting. No room for this without approval.`"""
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

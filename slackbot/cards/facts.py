"""What a tool looked up, as rich text: money, dates, lists and words, each told apart by its type.

A fact can hold words that strangers wrote into a database, so every value is made inert and has a size of
its own: no fact can push another one off the card.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from slackbot.cards import blocks, inert, json_text
from slackbot.cards.values import Json

MAX_FACTS = 20
MAX_NAME = 60
MAX_VALUE = 500
MAX_TOTAL = 2000
MAX_CHANGES = 1000

_AMOUNT = re.compile(
    "amount|balance|budget|charge|costs?|discount|fees?|payment|prices?|refund|salary|subtotal|sum|total"
)
_NOT_MONEY = re.compile(
    "bytes|cents?|count|days|hours|id|index|items|minor|minutes|ms|no|number|pct|pence|percent|qty|quantity|"
    "rate|ratio|rows|seconds|tokens|units|users|year"
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_DATETIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)\Z", re.ASCII)
_MOST_DIGITS = 16  # a double knows no more


@dataclass(frozen=True, slots=True)
class Shown:
    """Facts as list items, and whether each of them is there to its last character."""

    items: list[Json]
    complete: bool


def is_amount(name: str) -> bool:
    """Whether a value of this name is money, by the words in it: `refundAmount`, but not `total_rows`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return any(map(_AMOUNT.fullmatch, words)) and not any(map(_NOT_MONEY.fullmatch, words))


def money(value: float) -> str:
    """1,499.00: thousands apart, two places, more when the value has more; never rounded."""
    exact = Decimal(repr(value))
    places = max(2, -int(exact.as_tuple().exponent))
    if not exact.is_finite() or abs(exact.adjusted()) >= _MOST_DIGITS or places > _MOST_DIGITS:
        return json_text.compact(value)
    return f"{exact:,.{places}f}"


def value_text(name: str, value: Any) -> str:
    """A fact's value in words; inert once it has gone through `inert.line`."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return money(value) if is_amount(name) else json_text.compact(value)
        case str():
            return value if value.strip() else json_text.string(value)
        case list() | tuple() if value and all(_is_short(item) for item in value):
            return ", ".join(value_text(name, item) for item in value)
        case _:
            return json_text.compact(value)


def amounts(facts: Mapping[str, Any] | None, said: str = "") -> str:
    """The money among the facts that has not been `said` yet, in a few words: `price 1,499.00`."""
    found = [
        (str(name), money(value)) for name, value in (facts or {}).items() if _is_money(str(name), value)
    ]
    return ", ".join(f"{inert.line(name, 30)} {value}" for name, value in found[:3] if value not in said)


def shown(facts: Mapping[str, Any]) -> Shown:
    """Every fact as `name: value`; what does not fit is counted in a last line."""
    return _within(MAX_TOTAL, [_fact(str(name), value) for name, value in facts.items()])


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Shown:
    """What differs between two look-ups, as `name: before → after`."""
    names = dict.fromkeys([*before, *after])
    differing = [
        name for name in names if name not in before or name not in after or before[name] != after[name]
    ]
    return _within(MAX_CHANGES, [_change(str(name), name, before, after) for name in differing])


def _fact(name: str, value: Any) -> tuple[Json, bool]:
    words, whole = _shortened(value_text(name, value), MAX_VALUE)
    pieces = [_label(name), blocks.text(words)]
    if isinstance(value, str) and whole and (at := _datetime(value)):
        pieces += [blocks.text(" ("), blocks.moment(at), blocks.text(")")]
    return blocks.section(*pieces), whole and _shortened(name, MAX_NAME)[1]


def _change(label: str, name: Any, before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Json, bool]:
    old, old_whole = (
        _shortened(value_text(label, before[name]), 150) if name in before else ("not there", True)
    )
    new, new_whole = _shortened(value_text(label, after[name]), 150) if name in after else ("gone", True)
    return blocks.section(
        _label(label), blocks.text(f"{old} → "), blocks.text(new, bold=True)
    ), old_whole and new_whole


def _within(limit: int, rows: list[tuple[Json, bool]]) -> Shown:
    items: list[Json] = []
    complete, used = True, 0
    for item, whole in rows:
        used += blocks.size(item)
        if used > limit or len(items) == MAX_FACTS:
            break
        items.append(item)
        complete = complete and whole
    if missing := len(rows) - len(items):
        items.append(blocks.section(blocks.text(f"… {missing:,} more not shown", italic=True)))
    return Shown(items, complete and not missing)


def _label(name: str) -> Json:
    return blocks.text(f"{inert.line(name, MAX_NAME) or 'unnamed'}: ", bold=True)


def _shortened(words: str, limit: int) -> tuple[str, bool]:
    shown, left_out = inert.line_and_rest(words, limit)
    return shown, not left_out


def _datetime(value: str) -> datetime | None:
    if not _DATETIME.match(value):
        return None
    try:
        at = datetime.fromisoformat(value)
        return at if 0 <= at.timestamp() < 2**32 else None
    except (ValueError, OverflowError):
        return None


def _is_short(item: Any) -> bool:
    return isinstance(item, int | float | bool) or (
        isinstance(item, str) and "," not in item and item.strip() != ""
    )


def _is_money(name: str, value: Any) -> bool:
    return is_amount(name) and isinstance(value, int | float) and not isinstance(value, bool)

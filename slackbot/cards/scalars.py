"""Single values in words: money, dates, yes and no, short lists; each told apart by its type.

A text that looks like another type (`"yes"`, `"12"`) keeps its quotation marks. Nothing here is inert yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from slackbot.cards import inert, json_text

_AMOUNT = re.compile(
    "amount|balance|budget|charge|costs?|discount|fees?|payment|prices?|refund|salary|subtotal|sum|total"
)
_NOT_MONEY = re.compile(
    "bytes|cents?|count|days|hours|id|index|items|minor|minutes|ms|no|number|pct|pence|percent|qty|quantity|"
    "rate|ratio|rows|seconds|tokens|units|users|year"
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_DATETIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)\Z", re.ASCII)
_CURRENCY = re.compile(r"[A-Z]{3}\Z", re.ASCII)
_LOOKS_TYPED = re.compile(
    r"\s*(?:yes|no|none|null|true|false|empty|[-+]?[\d.,]+(?:e[-+]?\d+)?)\s*\Z|[\"“”'«\[{].*|\s.*|.*\s\Z",
    re.IGNORECASE | re.DOTALL,
)
_MOST_DIGITS = 16  # a double knows no more
_LONGEST_ITEM = 60
_MOST_ITEMS = 30


def is_amount(name: str) -> bool:
    """Whether a value of this name is money, by the words in it: `refundAmount`, but not `total_rows`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return any(map(_AMOUNT.fullmatch, words)) and not any(map(_NOT_MONEY.fullmatch, words))


def money(value: float) -> str:
    """1,499.00: thousands apart, two places, more when the value has more; never rounded."""
    exact = Decimal(repr(value))
    places = max(2, -int(exact.as_tuple().exponent)) if exact.is_finite() else 0
    if not exact.is_finite() or abs(exact.adjusted()) >= _MOST_DIGITS or places > _MOST_DIGITS:
        return json_text.compact(value)
    return f"{exact:,.{places}f}"


def currency_in(siblings: Mapping[str, Any]) -> str | None:
    """The currency that an object names beside its amounts, when it does: three capitals."""
    for name in ("currency", "currency_code"):
        if isinstance(code := siblings.get(name), str) and _CURRENCY.match(code):
            return code
    return None


def words(name: str, value: Any, currency: str | None = None) -> str:
    """A value in one line of words; objects and lists of objects as compact JSON."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case int() | float() if is_amount(name):
            return f"{money(value)} {currency}" if currency else money(value)
        case int() | float():
            return json_text.compact(value)
        case str():
            return json_text.string(value) if _LOOKS_TYPED.match(value) or not value else value
        case list() | tuple() if is_short_list(value):
            return ", ".join(words(name, item, currency) for item in value)
        case _:
            return json_text.compact(value)


def is_short_list(value: Any) -> bool:
    """Whether a list reads well in one line: a few short values, none of which has a comma."""
    return (
        isinstance(value, list | tuple) and 0 < len(value) <= _MOST_ITEMS and all(map(_is_short_item, value))
    )


def is_money(name: str, value: Any) -> bool:
    """A number that is an amount by its name."""
    return is_amount(name) and isinstance(value, int | float) and not isinstance(value, bool)


def amounts(facts: Mapping[str, Any] | None, said: str = "") -> str:
    """The money among the facts that has not been `said` yet, in a few words: `price 1,499.00 EUR`. Inert."""
    facts = facts or {}
    found = [
        (str(name), words(str(name), value, currency_in(facts)), money(value))
        for name, value in facts.items()
        if is_money(str(name), value)
    ]
    return ", ".join(
        f"{inert.line(name, 30)} {shown}" for name, shown, plain in found[:3] if plain not in said
    )


def moment_in(value: Any) -> datetime | None:
    """The point in time that a text is, as far as Slack can show it: ISO 8601 with its offset."""
    if not isinstance(value, str) or not _DATETIME.match(value):
        return None
    try:
        at = datetime.fromisoformat(value)
        return at if 0 <= at.timestamp() < 2**32 else None
    except (ValueError, OverflowError):
        return None


def _is_short_item(item: Any) -> bool:
    if isinstance(item, str):
        return "," not in item and "\n" not in item and item.strip() != "" and len(item) <= _LONGEST_ITEM
    return item is None or isinstance(item, int | float | bool)

"""Single values in words, distinguished by type: `"yes"` and `"12"` keep their quotation marks. Not inert yet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from signoff import formats
from slackbot.cards import inert, json_text

_DATETIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)\Z", re.ASCII)
_CURRENCY = re.compile(r"[A-Z]{3}\Z", re.ASCII)
_LOOKS_TYPED = re.compile(
    r"\s*(?:yes|no|none|null|true|false|empty|[-+]?[\d.,]+(?:e[-+]?\d+)?)\s*\Z|[\"“”'«\[{].*|\s.*|.*\s\Z",
    re.IGNORECASE | re.DOTALL,
)
_LONGEST_ITEM = 60
_MAX_ITEMS = 30


def currency_in(siblings: Mapping[str, Any]) -> str | None:
    """The currency beside amounts: three capitals."""
    for name in ("currency", "currency_code"):
        if isinstance(code := siblings.get(name), str) and _CURRENCY.match(code):
            return code
    return None


def words(name: str, value: Any, currency: str | None = None) -> str:
    """Objects and lists of objects become compact JSON."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case int() | float() if shown := formats.amount(name, value):
            return f"{shown} {currency}" if currency else shown
        case str():
            return json_text.string(value) if _LOOKS_TYPED.match(value) or not value else value
        case list() | tuple() if is_short_list(value):
            return ", ".join(words(name, item, currency) for item in value)
        case _:
            return json_text.compact(value)


def is_short_list(value: Any) -> bool:
    """Whether one line can show it: a few short values without commas."""
    return (
        isinstance(value, list | tuple) and 0 < len(value) <= _MAX_ITEMS and all(map(_is_short_item, value))
    )


def amounts(facts: Mapping[str, Any] | None, said: str = "") -> str:
    """Money among the facts that is not yet in `said`: `price 1,499.00 EUR`. Inert."""
    facts = facts or {}
    currency = currency_in(facts)
    money = [
        (str(name), value, shown)
        for name, value in facts.items()
        if (shown := formats.amount(str(name), value))
    ]
    return ", ".join(
        f"{inert.line(name, 30)} {words(name, value, currency)}"
        for name, value, shown in money[:3]
        if shown not in said
    )


def moment_in(value: Any) -> datetime | None:
    """A time that Slack can show: ISO 8601 with its offset."""
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

"""Single values in words, distinguished by type: `"yes"` and `"12"` keep their quotation marks. Not inert yet.

A version or an address, `2.14.0`, is no number and stands without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from agent.domain.request_view import RequestView
from signoff.formats import NO_MONEY, Money
from slackbot.cards import inert, json_text

_DATETIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)\Z", re.ASCII)
_CURRENCY = re.compile(r"[A-Z]{3}\Z", re.ASCII)
_LOOKS_TYPED = re.compile(
    r"\s*(?:yes|no|none|null|true|false|empty|(?=[-+.,]*\d)[-+]?\d*(?:[.,]\d{3})*[.,]?\d*(?:e[-+]?\d+)?)\s*\Z|[\"“”'«\[{].*|\s.*|.*\s\Z",
    re.IGNORECASE | re.DOTALL,
)
_LONGEST_ITEM = 60
_MAX_ITEMS = 30
MAX_AMOUNTS = 3


def currency_in(siblings: Mapping[str, Any]) -> str | None:
    """The currency beside amounts: three capitals."""
    for name in ("currency", "currency_code"):
        if isinstance(code := siblings.get(name), str) and _CURRENCY.match(code):
            return code
    return None


def words(value: Any, money: Money = NO_MONEY, currency: str | None = None) -> str:
    """Objects and lists of objects become compact JSON."""
    if (shown := money.shown(value)) is not None:
        return f"{shown} {currency}" if currency else shown
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case str():
            return json_text.string(value) if looks_typed(value) else value
        case list() | tuple() if is_short_list(value):
            return ", ".join(words(item, money.below(at), currency) for at, item in enumerate(value))
        case _:
            return json_text.compact(value)


def looks_typed(value: Any) -> bool:
    """Whether only its quotation marks tell this text from a value of another type."""
    return isinstance(value, str) and (not value or _LOOKS_TYPED.match(value) is not None)


def is_short_list(value: Any) -> bool:
    """Whether one line can show it: a few short values without commas."""
    return (
        isinstance(value, list | tuple) and 0 < len(value) <= _MAX_ITEMS and all(map(_is_short_item, value))
    )


def amounts(view: RequestView) -> str:
    """Money among the facts that is not yet in the description: `price 1,499.00 EUR`. Inert."""
    found = islice(_amounts(view.facts or {}, view.money_in("facts")), MAX_AMOUNTS)
    return ", ".join(
        f"{inert.line(view.called(name), 30)} {shown}{currency}"
        for name, shown, currency in found
        if not re.search(rf"(?<![\d.,-]){re.escape(shown)}(?![\d.,]*\d)", view.description)
    )


def _amounts(
    value: Any, money: Money, name: str = "", currency: str | None = None
) -> Iterator[tuple[str, str, str]]:
    """Name, amount and currency. Goes only where money is declared."""
    if isinstance(value, Mapping):
        currency = currency_in(value)
    for step, each in value.items() if isinstance(value, Mapping) else enumerate(value):
        below, path = money.below(step), f"{name} {step}".strip() if isinstance(step, str) else name
        if (shown := below.shown(each)) is not None:
            yield path, shown, f" {currency}" if currency else ""
        elif below != NO_MONEY and isinstance(each, Mapping | list | tuple):
            yield from _amounts(each, below, path, currency)


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

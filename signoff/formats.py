import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

_AMOUNT = re.compile(
    "amount|balance|budget|charge|costs?|discount|fees?|payment|prices?|refund|salary|subtotal|sum|total"
)
_NOT_MONEY = re.compile(
    "bytes|cents?|count|days|hours|id|index|items|minor|minutes|ms|no|number|pct|pence|percent|qty|quantity|"
    "rate|ratio|rows|seconds|tokens|units|users|year"
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_MAX_DIGITS = 16  # precision of a double


def amount(name: str, value: Any) -> str | None:
    """Format a number whose name says that it is money: `1,499.00`.

    Never rounded: at least two decimal places. A number that a double cannot hold exactly is not shown as money.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not _is_amount(name):
        return None
    exact = Decimal(repr(value))
    if not exact.is_finite() or abs(exact.adjusted()) >= _MAX_DIGITS:
        return None
    places = max(2, -int(exact.as_tuple().exponent))
    return f"{exact:,.{places}f}" if places <= _MAX_DIGITS else None


def moment(at: datetime) -> str:
    """UTC, to the minute: `2026-12-24 10:00 UTC`."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _is_amount(name: str) -> bool:
    """`refundAmount` and `items[0].price` are amounts; `total_rows` is not."""
    words = [word.lower() for word in _WORDS.findall(name.rpartition(".")[2])]
    return any(map(_AMOUNT.fullmatch, words)) and not any(map(_NOT_MONEY.fullmatch, words))

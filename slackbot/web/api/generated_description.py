"""The description that earlier clients generated and sent. Never change it: stored questions are compared with it."""

import re
from decimal import Decimal
from typing import Any

from signoff.canonical import canonical_bytes
from signoff.masks import redact_by_name
from signoff.values import Action

_QUOTES = str.maketrans(dict.fromkeys('"“”„‟«»‶″❝❞❠〝〞〟＂ʺ˝ˮ״🙶🙷🙸', "'"))
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,-]{0,40}\Z", re.ASCII)
_AMOUNT = re.compile(
    "amount|balance|budget|charge|costs?|discount|fees?|payment|prices?|refund|salary|subtotal|sum|total"
)
_NOT_MONEY = re.compile(
    "bytes|cents?|count|days|hours|id|index|items|minor|minutes|ms|no|number|pct|pence|percent|qty|quantity|"
    "rate|ratio|rows|seconds|tokens|units|users|year"
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


def generated(action: Action) -> str:
    """Its values are cut, at 60 or 200 characters, and so is the line at 600: not to be shown."""
    arguments = redact_by_name(action.arguments).value
    named = ", ".join(f"{name}: {_value(name, value)}" for name, value in arguments.items())
    return _cut(f"{action.tool}({named})", 600)


def _value(name: str, value: Any) -> str:
    if isinstance(value, str):
        return _cut(value, 200) if _NUMBER.match(value) else _quoted(value.translate(_QUOTES))
    return _amount(name, value) or _cut(canonical_bytes(value).decode(), 200)


def _quoted(text: str) -> str:
    return f"“{text}”" if len(text) <= 60 else f"“{text[:60]}…” (+{len(text) - 60} characters)"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… (+{len(text) - limit} characters)"


def _amount(name: str, value: Any) -> str | None:
    words = [word.lower() for word in _WORDS.findall(name.rpartition(".")[2])]
    if not any(map(_AMOUNT.fullmatch, words)) or any(map(_NOT_MONEY.fullmatch, words)):
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    exact = Decimal(repr(value))
    if not exact.is_finite() or abs(exact.adjusted()) >= 16:
        return None
    places = max(2, -int(exact.as_tuple().exponent))
    return f"{exact:,.{places}f}" if places <= 16 else None

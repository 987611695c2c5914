"""One-line descriptions of actions, without secrets."""

import re
from collections.abc import Mapping
from typing import Any

from signoff import formats
from signoff.canonical import canonical_bytes
from signoff.formats import NO_MONEY, Money
from signoff.masks import redact_by_name
from signoff.values import Action

MAX_VALUE = 200
"""Characters of one value; the rest is counted."""

MAX_QUOTED = 60
"""Characters of a value within the operator's text."""

MAX_LINE = 600

_QUOTES = str.maketrans(dict.fromkeys('"“”„‟«»‶″❝❞❠〝〞〟＂ʺ˝ˮ״🙶🙷🙸', "'"))
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,-]{0,40}\Z", re.ASCII)


def describe(action: Action) -> str:
    """What clients send where the program gives no description.

    The service recognizes it by its exact words, so it goes on writing numbers named like money as money.
    """
    arguments = redact_by_name(action.arguments).value
    named = {name: formats.amount(name, value) or shown_value(value) for name, value in arguments.items()}
    return _call(action.tool, named)


def tool_and_arguments(tool: str, arguments: Mapping[str, Any], money: Money = NO_MONEY) -> str:
    """`arguments` are already masked."""
    declared = money.below("args")
    return _call(tool, {name: shown_value(value, declared.below(name)) for name, value in arguments.items()})


def quoted(text: str, limit: int = MAX_QUOTED) -> str:
    """Quote a text so that it cannot close its own quotation marks."""
    text = text.translate(_QUOTES)
    return f"“{text}”" if len(text) <= limit else f"“{text[:limit]}…” (+{len(text) - limit} characters)"


def shown_value(value: Any, money: Money = NO_MONEY) -> str:
    """Quote texts, except numbers and dates."""
    if (amount := money.shown(value)) is not None:
        return amount
    if isinstance(value, str):
        return plain(value) if _NUMBER.match(value) else quoted(value)
    return plain(value)


def shorten(text: str, limit: int = MAX_VALUE) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… (+{len(text) - limit} characters)"


def plain(value: Any) -> str:
    return shorten(value if isinstance(value, str) else canonical_bytes(value).decode())


def _call(tool: str, named: Mapping[str, str]) -> str:
    return shorten(f"{tool}({', '.join(f'{name}: {value}' for name, value in named.items())})", MAX_LINE)

"""One-line descriptions of actions, without secrets."""

import re
from collections.abc import Mapping
from typing import Any

from signoff import formats
from signoff.canonical import canonical_bytes
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
    return tool_and_arguments(action.tool, redact_by_name(action.arguments).value)


def tool_and_arguments(tool: str, arguments: Mapping[str, Any]) -> str:
    """`arguments` are already masked."""
    named = ", ".join(f"{name}: {named_value(name, value)}" for name, value in arguments.items())
    return shorten(f"{tool}({named})", MAX_LINE)


def quoted(text: str, limit: int = MAX_QUOTED) -> str:
    """Quote a text so that it cannot close its own quotation marks."""
    text = text.translate(_QUOTES)
    return f"“{text}”" if len(text) <= limit else f"“{text[:limit]}…” (+{len(text) - limit} characters)"


def named_value(name: str, value: Any) -> str:
    """Quote texts, except numbers and dates."""
    if isinstance(value, str):
        return plain(value) if _NUMBER.match(value) else quoted(value)
    return formats.amount(name, value) or plain(value)


def shorten(text: str, limit: int = MAX_VALUE) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… (+{len(text) - limit} characters)"


def plain(value: Any) -> str:
    return shorten(value if isinstance(value, str) else canonical_bytes(value).decode())

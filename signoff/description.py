"""One-line descriptions of actions, without secrets."""

import re
from collections.abc import Mapping
from typing import Any

from signoff import formats
from signoff.canonical import canonical_bytes
from signoff.masks import redact_by_name
from signoff.values import Action

MAX_VALUE = 200
"""Of one value; the rest is counted."""

MAX_QUOTED = 60
"""Of a value within the operator's text."""

MAX_LINE = 600

_QUOTES = str.maketrans(dict.fromkeys('"“”„‟«»‶″❝❞❠〝〞〟＂ʺ˝ˮ״🙶🙷🙸', "'"))
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,-]{0,40}\Z", re.ASCII)


def describe(action: Action) -> str:
    """Describe an action without a template: tool name and arguments, cut if long."""
    return tool_and_arguments(action.tool, redact_by_name(action.arguments).value)


def tool_and_arguments(tool: str, arguments: Mapping[str, Any]) -> str:
    """`describe` for arguments that are already masked."""
    named = ", ".join(f"{name}: {named_value(name, value)}" for name, value in arguments.items())
    return shorten(f"{tool}({named})", MAX_LINE)


def quoted(text: str, limit: int = MAX_QUOTED) -> str:
    """Quote a text so that it cannot close its own quotation marks. Cut if long."""
    text = text.translate(_QUOTES)
    return f"“{text}”" if len(text) <= limit else f"“{text[:limit]}…” (+{len(text) - limit} characters)"


def named_value(name: str, value: Any) -> str:
    """A JSON value within a sentence: texts are `quoted`, except numbers and dates."""
    if isinstance(value, str):
        return plain(value) if _NUMBER.match(value) else quoted(value)
    return formats.amount(name, value) or plain(value)


def shorten(text: str, limit: int = MAX_VALUE) -> str:
    """The text, or its beginning and the number of omitted characters."""
    return text if len(text) <= limit else f"{text[:limit]}… (+{len(text) - limit} characters)"


def plain(value: Any) -> str:
    """Strings unchanged, anything else as canonical JSON. Cut if long."""
    return shorten(value if isinstance(value, str) else canonical_bytes(value).decode())

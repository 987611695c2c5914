"""An action in one line: the tool's name and its arguments, without secrets."""

import re
from collections.abc import Mapping
from typing import Any

from signoff import formats
from signoff.canonical import canonical_bytes
from signoff.masks import redact_by_name
from signoff.values import Action

MAX_VALUE = 200
"""Characters shown of one value; the rest is counted."""

MAX_QUOTED = 60
"""Characters shown of a text between the operator's words."""

MAX_LINE = 600

_QUOTES = str.maketrans(dict.fromkeys('"“”„‟«»‶″❝❞❠〝〞〟＂ʺ˝ˮ״🙶🙷🙸', "'"))
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,-]{0,40}\Z", re.ASCII)


def describe(action: Action) -> str:
    """A tool's name and its arguments, each cut when long, for actions without a template."""
    return tool_and_arguments(action.tool, redact_by_name(action.arguments).value)


def tool_and_arguments(tool: str, arguments: Mapping[str, Any]) -> str:
    """`describe` for arguments that are masked already."""
    named = ", ".join(f"{name}: {named_value(name, value)}" for name, value in arguments.items())
    return shorten(f"{tool}({named})", MAX_LINE)


def quoted(text: str, limit: int = MAX_QUOTED) -> str:
    """A text in quotation marks that it cannot close, cut when long."""
    text = text.translate(_QUOTES)
    return f"“{text}”" if len(text) <= limit else f"“{text[:limit]}…” (+{len(text) - limit} characters)"


def named_value(name: str, value: Any) -> str:
    """A JSON value among the words of somebody else: a text is `quoted`, unless it is a number or a date."""
    if isinstance(value, str):
        return plain(value) if _NUMBER.match(value) else quoted(value)
    return formats.amount(name, value) or plain(value)


def shorten(text: str, limit: int = MAX_VALUE) -> str:
    """The text, or its beginning and how many characters were left out."""
    return text if len(text) <= limit else f"{text[:limit]}… (+{len(text) - limit} characters)"


def plain(value: Any) -> str:
    """A JSON value as people read it: a string as it is, anything else as canonical JSON; cut when long."""
    return shorten(value if isinstance(value, str) else canonical_bytes(value).decode())

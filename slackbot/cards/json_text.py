r"""JSON for people, which parses back to the same value; deceptive characters are JSON escapes (`\u202e`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import rfc8785

from signoff.canonical import MAX_INTEGER
from signoff.values import Action
from signoff.visible_text import hidden_positions, is_plain

_QUOTED = str.maketrans({'"': '\\"', "\\": "\\\\"})
_BLANKS = re.compile(r"(?<= {16}) +|[^\S ]+")  # a longer run could push what follows out of sight
_LONG_BLANK = " " * 17
_DEEPEST_PRETTY = 16


def arguments_of(action: Action) -> dict[str, Any]:
    """Read the canonical bytes unchecked: a check takes a second for the largest."""
    read: dict[str, Any] = json.loads(action.canonical, parse_int=_whole)["arguments"]
    return read


def pretty(value: Any) -> str:
    """One member a line, two spaces a level."""
    return _write(value, "\n")


def readable(value: Any) -> str:
    """`pretty`, unless most of it would be indentation: deep nesting can make a text thirty times as long."""
    spread = pretty(value) if _depth(value) <= _DEEPEST_PRETTY else ""
    flat = compact(value)
    return spread if len(spread) >= len(flat) and len(spread) <= 3 * len(flat) + 1000 else flat


def compact(value: Any) -> str:
    """Write a value as JSON on one line; characters that could deceive a reader are escaped."""
    return _write(value, None)


@lru_cache(maxsize=64)  # long ones are written twice, and for each page of the details
def string(text: str) -> str:
    """A JSON string with every hidden or blank character escaped."""
    if is_plain(text) and _LONG_BLANK not in text:
        return f'"{text.translate(_QUOTED)}"'
    blanks = (range(*blank.span()) for blank in _BLANKS.finditer(text))
    pieces, done = [], 0
    for position in sorted(hidden_positions(text).union(*blanks)):
        if done < position:
            pieces.append(text[done:position].translate(_QUOTED))
        pieces.append(_escape(text[position]))
        done = position + 1
    return f'"{"".join(pieces)}{text[done:].translate(_QUOTED)}"'


@lru_cache(maxsize=4096)
def _escape(character: str) -> str:
    if character in "\n\r\t\b\f":
        return json.dumps(character)[1:-1]
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _whole(digits: str) -> float:
    number = int(digits)
    return number if abs(number) <= MAX_INTEGER else float(digits)


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return 1 + max(map(_depth, inner), default=0)


def _write(value: Any, newline: str | None) -> str:
    match value:
        case str():
            return string(value)
        case Mapping():
            members = (
                f"{string(str(key))}: {_write(member, _deeper(newline))}" for key, member in value.items()
            )
            return _enclose("{", "}", list(members), newline)
        case list() | tuple():
            return _enclose("[", "]", [_write(item, _deeper(newline)) for item in value], newline)
        case None | bool() | int() | float():
            return _scalar(value)
        case _:
            return string(str(value))


def _scalar(value: Any) -> str:
    """A scalar as RFC 8785 writes it. Stored values always have that form; anything else is shown, not lost."""
    if type(value) is int and abs(value) <= MAX_INTEGER:
        return str(value)
    try:
        return rfc8785.dumps(value).decode()
    except rfc8785.CanonicalizationError:
        return string(repr(value))


def _deeper(newline: str | None) -> str | None:
    return None if newline is None else newline + "  "


def _enclose(opening: str, closing: str, items: list[str], newline: str | None) -> str:
    if not items or newline is None:
        return f"{opening}{', '.join(items)}{closing}"
    inner = newline + "  "
    return f"{opening}{inner}{f',{inner}'.join(items)}{newline}{closing}"

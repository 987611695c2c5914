"""Templates of a checkpoint: a card's description, and its only link, always to the operator's own host."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from signoff.canonical import canonical_bytes
from signoff.description import InWords, is_whole, own_words, shown_value
from signoff.errors import MalformedArguments
from signoff.formats import NO_MONEY, Money

MAX_LINK = 3000
"""Slack's maximum for a button's URL."""

_ORIGIN = re.compile(r"https?://[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d{1,5})?/")
_UNFIT = re.compile(r"[\s\\\x00-\x1f\x7f]")

ROOTS = ("args", "facts")

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")
_PATH = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*\Z")
MISSING = object()


def check_link(template: str) -> None:
    """Raises ValueError for a template that could lead to another host."""
    found = parts(template)
    text, path = found[0] if found else ("", None)
    if path is not None or not _ORIGIN.match(text):
        raise ValueError(
            'column 1: must begin with "https://", your own host and "/"; placeholders come after that'
        )
    if any(path is None and _UNFIT.search(text) for text, path in found):
        raise ValueError("must not contain spaces, backslashes or control characters")
    if len(template) > MAX_LINK:
        raise ValueError(f"must be at most {MAX_LINK} characters")


def placeholder_names(template: str) -> list[tuple[str, ...]]:
    """`("args", "order_id")`. Raises ValueError."""
    return [path for _, path in parts(template) if path is not None]


def render_link(template: str, args: Mapping[str, Any], facts: Mapping[str, Any] | None) -> str | None:
    """None when a value is missing, is not plain, or would leave its place."""
    roots = {"args": args, "facts": facts or {}}
    rendered = ""
    for text, path in parts(template):
        value = text if path is None else _encoded(value_at(path, roots))
        if value is None:
            return None
        rendered += value
    # Browsers resolve "." and "..", also percent-encoded; quoting does not change dots.
    steps = re.split(r"[?#]", rendered, maxsplit=1)[0].split("/")[3:]
    if len(rendered) > MAX_LINK or any(step in {".", ".."} for step in steps):
        return None
    return rendered


def _encoded(value: Any) -> str | None:
    if value is MISSING or value is None or value == "" or isinstance(value, Mapping | list | tuple):
        return None
    return quote(value if isinstance(value, str) else canonical_bytes(value).decode(), safe="")


def check(template: str) -> None:
    """Raises ValueError, naming the place."""
    parts(template)


def render(
    template: str, args: Mapping[str, Any], facts: Mapping[str, Any] | None, money: Money = NO_MONEY
) -> str:
    """A missing value shows as `⟨missing: args.x⟩`. Raises ValueError."""
    return describe(template, args, facts, money).text


def describe(
    template: str, args: Mapping[str, Any], facts: Mapping[str, Any] | None, money: Money = NO_MONEY
) -> InWords:
    """`render`, with the names of the arguments that it shows whole. Raises ValueError."""
    roots = {"args": args, "facts": facts or {}}
    pieces: list[str] = []
    whole: set[str] = set()
    for part, path in parts(template):
        piece = own_words(part) if path is None else _show(path, roots, money)
        pieces.append(piece)
        if path is not None and path[0] == "args" and len(path) == 2 and is_whole(piece):
            whole.add(path[1])
    return InWords("".join(pieces), frozenset(whole))


@lru_cache(maxsize=1024)
def parts(template: str) -> tuple[tuple[str, tuple[str, ...] | None], ...]:
    """Literal texts have no path. Raises ValueError."""
    found: list[tuple[str, tuple[str, ...] | None]] = []
    for match in _PART.finditer(template):
        text, name = match.group(), match.group(1)
        if name is not None:
            found.append((text, _path(name, match.start() + 1)))
        elif text in {"{", "}"}:
            raise ValueError(
                f'column {match.start() + 1}: a single "{text}" (write "{text}{text}" for a brace)'
            )
        else:
            found.append(("{" if text == "{{" else "}" if text == "}}" else text, None))
    return tuple(found)


def _path(name: str, column: int) -> tuple[str, ...]:
    if not _PATH.match(name):
        raise ValueError(f'column {column}: "{{{name}}}" is not a path such as {{args.order_id}}')
    path = tuple(name.split("."))
    if path[0] not in ROOTS:
        raise ValueError(f'column {column}: "{{{name}}}" must start with args or facts')
    return path


def value_at(path: tuple[str, ...], roots: Mapping[str, Any]) -> Any:
    """Return the value at a path that starts with args or facts, or MISSING if there is none."""
    return value_and_money_at(path, roots, NO_MONEY)[0]


def value_and_money_at(path: Sequence[str], value: Any, money: Money) -> tuple[Any, Money]:
    """As `value_at`, with what is declared as money there."""
    for step in path:
        found = _step(value, step)
        if found is MISSING:
            return MISSING, NO_MONEY
        value, money = found, money.below(step if isinstance(value, Mapping) else int(step))
    return value, money


def _show(path: tuple[str, ...], roots: Mapping[str, Any], money: Money) -> str:
    value, declared = value_and_money_at(path, roots, money)
    if value is MISSING:
        return f"⟨missing: {'.'.join(path)}⟩"
    try:
        return shown_value(value, declared)
    except MalformedArguments:
        return f"⟨unreadable: {'.'.join(path)}⟩"


def _step(value: Any, step: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(step, MISSING)
    if isinstance(value, list | tuple) and step.isascii() and step.isdigit() and len(step) < 9:
        return value[int(step)] if int(step) < len(value) else MISSING
    return MISSING

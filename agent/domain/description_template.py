"""`description_template`: an action's description, filled in from its arguments and facts.

`{args.a.b}`, `{facts.price}` and `{args.items.0}` name values by path. `{{` and `}}` are braces, `$` is a dollar
sign; what policy declares as money is written as money. Texts are put in quotation marks that they cannot close, so all
other words are the operator's. Long values are cut where they are shown (`signoff.description.shown`). The caller
escapes the result.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from signoff.description import own_words, shown_value
from signoff.errors import MalformedArguments
from signoff.formats import NO_MONEY, Money

ROOTS = ("args", "facts")

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")
_PATH = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*\Z")
MISSING = object()


def check(template: str) -> None:
    """Raises ValueError, naming the place."""
    parts(template)


def render(
    template: str, args: Mapping[str, Any], facts: Mapping[str, Any] | None, money: Money = NO_MONEY
) -> str:
    """A missing value shows as `⟨missing: args.x⟩`. Raises ValueError."""
    roots = {"args": args, "facts": facts or {}}
    return "".join(
        own_words(part) if path is None else _show(path, roots, money) for part, path in parts(template)
    )


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
    return _walk(path, roots, NO_MONEY)[0]


def _walk(path: tuple[str, ...], value: Any, money: Money) -> tuple[Any, Money]:
    for step in path:
        found = _step(value, step)
        if found is MISSING:
            return MISSING, NO_MONEY
        value, money = found, money.below(step if isinstance(value, Mapping) else int(step))
    return value, money


def _show(path: tuple[str, ...], roots: Mapping[str, Any], money: Money) -> str:
    value, declared = _walk(path, roots, money)
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

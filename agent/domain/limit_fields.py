"""Parse the ``[[limit]]`` tables. A ValueError's text follows the key's name."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any, get_args

from agent.domain import checkpoint_fields
from agent.domain.field_constraints import exact_number
from agent.domain.limits import COUNT, LONGEST, Limit, Per, Then, length
from agent.domain.spelling import meant
from agent.domain.toml_text import Lines

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_OF = re.compile(r"(?:facts|args)(?:\.[^.\s\x00]+)+\Z")


def name(value: Any) -> str:
    """The name fits a log line."""
    if not isinstance(value, str) or not _NAME.match(value):
        raise ValueError("must be up to 64 letters, digits, dots, dashes and underscores")
    return value


def of(value: Any) -> str:
    """Return what a limit adds up: `count`, or a number's path in facts or args; or raise ValueError."""
    if value != COUNT and not (isinstance(value, str) and _OF.match(value)):
        raise ValueError('must be "count", or a number such as "facts.price" or "args.amount"')
    return str(value)


def per(value: Any) -> Per:
    """Return for whom a limit counts separately (agent, requester, key or all), or raise ValueError."""
    checkpoint_fields.one_of(value, get_args(Per))
    return value  # type: ignore[no-any-return]


def within(value: Any) -> timedelta:
    """Return a limit's sliding window of at most 31 days; raise ValueError for any other."""
    window = checkpoint_fields.duration(value)
    if window > LONGEST:
        raise ValueError(f"must be at most {length(LONGEST)}")
    return window


def maximum(value: Any) -> Decimal:
    """Return a limit's maximum as an exact decimal of 0 or more; raise ValueError for anything else."""
    exact = exact_number(value)
    if exact is None or exact < 0:
        raise ValueError("must be a number of 0 or more, without quotes")
    return exact.copy_abs()


def then(value: Any) -> Then:
    """Return what happens when a limit has no room, `ask` or `deny`, or raise ValueError."""
    return "deny" if checkpoint_fields.one_of(value, ["ask", "deny"]) == "deny" else "ask"


LIMIT: dict[str, Callable[[Any], Any]] = {
    "name": name,
    "action_pattern": checkpoint_fields.pattern,
    "of": of,
    "per": per,
    "within": within,
    "max": maximum,
    "then": then,
}
REQUIRED = ("name", "action_pattern", "of", "per", "within", "max")


def read(tables: Any, lines: Lines, problem: Callable[[int, str], None]) -> tuple[Limit, ...]:
    """The valid limits; ``problem`` gets each line."""
    if not isinstance(tables, list):
        problem(lines.of("limit"), "write [[limit]], with two brackets")
        return ()
    found: dict[str, Limit] = {}
    for index, table in enumerate(tables):
        limit = _read(index, table, lines, problem)
        if limit is not None and limit.name in found:
            problem(lines.of("limit", index, "name"), f'limit "{limit.name}": the name is already used')
        elif limit is not None:
            found[limit.name] = limit
    return tuple(found.values())


def _read(index: int, table: Any, lines: Lines, problem: Callable[[int, str], None]) -> Limit | None:
    given = table if isinstance(table, dict) else {}
    label = f'limit "{given["name"]}"' if given.get("name") else f"limit #{index + 1}"
    values: dict[str, Any] = {}
    for key, value in given.items():
        try:
            values[key] = LIMIT[key](value)
        except KeyError:
            problem(lines.of("limit", index, key), f'{label}: unknown key "{key}"{meant(key, LIMIT)}')
        except ValueError as error:
            problem(lines.of("limit", index, key), f'{label}: "{key}" {error}')
    for key in REQUIRED:
        if key not in given:
            problem(lines.of("limit", index), f'{label}: "{key}" is missing')
    return Limit(**values) if set(REQUIRED) <= values.keys() else None

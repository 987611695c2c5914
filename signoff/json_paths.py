"""JSON paths such as `$.items[2].price`, and which of them a `redact` list covers.

An entry of `redact` is a name (`card_number`, at any depth) or a dotted path (`customer.card`, `args.customer.card`,
`items.0.price`; `items.price` covers every item). It covers the value there and everything below.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Step = str | int

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_STEP = re.compile(r"""\.([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]+)\]|\[("(?:\\.|[^"\\])*")\]""")
_ROOTS = ("args", "facts")


def format_path(steps: Iterable[Step]) -> str:
    """`$.items[2].price`, `$["a key"]`."""
    return "$" + "".join(_written(step) for step in steps)


def steps_of(path: str) -> Iterator[Step]:
    """Reads what `format_path` wrote."""
    for name, index, key in _STEP.findall(path):
        yield name or (int(index) if index else json.loads(key))


def is_redacted(steps: tuple[Step, ...], redact: Iterable[str], root: str = "args") -> bool:
    """Whether `redact` covers the value at this path; `root` is where the path begins, args or facts."""
    return any(_matches(entry, steps, root) for entry in redact)


class Rest(NamedTuple):
    """Values without those that a list covers, and the number of these."""

    values: dict[str, Any]
    left_out: int


def without(values: Mapping[str, Any], covered: Iterable[str], root: str) -> Rest:
    """Whole members are left out, also those of objects in lists; items of lists stay in their places.

    Unlike in `redact`, a name alone covers only the member of `values` itself, so that it is known what is covered.
    """
    paths = tuple(covered)
    return _without_members(values, paths, root, ()) if paths else Rest(dict(values), 0)


def may_meet(path: Sequence[str], covered: str, root: str) -> bool:
    """Whether the value at this path may lie within what an entry of `without` covers, or have it within.

    A number in ``path`` is an item of a list or the name of a member.
    """
    return any(_may_meet(names, path) for names in _below_root([covered], root))


def _below_root(covered: Iterable[str], root: str) -> Iterator[list[str]]:
    for entry in covered:
        first, *rest = entry.split(".")
        if rest and first in _ROOTS:
            if first == root:
                yield rest
        else:
            yield [first, *rest]


def _may_meet(names: Sequence[str], path: Sequence[str]) -> bool:
    if not names or not path:
        return True
    is_number = path[0].isdecimal()
    same = path[0] == names[0] or (
        is_number and names[0].isdecimal() and path[0].lstrip("0") == names[0].lstrip("0")
    )
    return (same and _may_meet(names[1:], path[1:])) or (is_number and _may_meet(names, path[1:]))


def _without_members(
    values: Mapping[str, Any], covered: tuple[str, ...], root: str, above: tuple[Step, ...]
) -> Rest:
    kept: dict[str, Any] = {}
    count = 0
    for name, value in values.items():
        steps = (*above, name)
        if any(_matches_path(names, steps) for names in _below_root(covered, root)):
            count += 1
            continue
        kept[name], within = _without_below(value, covered, root, steps)
        count += within
    return Rest(kept, count)


def _without_below(
    value: Any, covered: tuple[str, ...], root: str, steps: tuple[Step, ...]
) -> tuple[Any, int]:
    if isinstance(value, Mapping):
        return _without_members(value, covered, root, steps)
    if not isinstance(value, list | tuple):
        return value, 0
    items = [_without_below(each, covered, root, (*steps, at)) for at, each in enumerate(value)]
    return [each for each, _ in items], sum(count for _, count in items)


def _matches(entry: str, steps: tuple[Step, ...], root: str) -> bool:
    names = entry.split(".")
    if len(names) == 1:
        return entry in steps
    if names[0] in _ROOTS and _matches_path(names, (root, *steps)):
        return True
    return _matches_path(names, steps)


def _matches_path(names: list[str], steps: tuple[Step, ...]) -> bool:
    if not names:
        return True
    if not steps:
        return False
    if str(steps[0]) == names[0] and _matches_path(names[1:], steps[1:]):
        return True
    return isinstance(steps[0], int) and _matches_path(names, steps[1:])


def _written(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _IDENTIFIER.match(step) else f"[{json.dumps(step)}]"

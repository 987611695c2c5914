"""Objects for people: one value per line, nested values below, edits as a diff."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from agent.domain.request_view import Change
from signoff.formats import Money
from signoff.visible_text import visible
from slackbot.cards import json_text, scalars
from slackbot.cards.tree import below

DEEPEST = 8
MAX_NODES = 2_000
"""Of one object; its exact form shows all of them."""
MAX_DIFFED = 20_000
_PAIRS = (("before", "after"), ("old", "new"))
_MISSING = object()
_Side = tuple[Any, Money]


@dataclass(frozen=True, slots=True)
class Node:
    """A value in a page's tree: its words, its members, or what it `was` before a change."""

    name: str
    words: str = ""
    at: datetime | None = None
    children: tuple[Node, ...] = ()
    was: str | None = None
    diff: tuple[tuple[str, str], ...] = ()  # (`-`, `+` or ` `, line)


def tree(
    values: Mapping[str, Any], money: Money, called: Callable[[str], str] = str
) -> tuple[tuple[Node, ...], int]:
    """Return an object as at most 2,000 nodes, and how many members did not fit; ``called``: names in words."""
    room = [MAX_NODES]
    nodes = tuple(_named(each, called) for each in _members(values, 0, room, money))
    return nodes, max(0, -room[0])


def _named(node: Node, called: Callable[[str], str]) -> Node:
    return replace(
        node, name=called(node.name), children=tuple(_named(each, called) for each in node.children)
    )


def changed_values(changes: Iterable[Change], money: Money) -> list[Node]:
    """Return a node for each change of a request's arguments, with the value before and after."""
    return [
        _change(each.path.removeprefix("$."), (each.before, declared), (each.after, declared))
        for each in changes
        for declared in (below(money, each.path),)
    ]


def differences(before: Mapping[str, Any], after: Mapping[str, Any], money: Money) -> list[Node]:
    """Return a node for each top-level member that differs between two objects, with both values."""
    names = dict.fromkeys([*before, *after])
    return [
        _change(
            name,
            (before.get(name, _MISSING), money.below(name)),
            (after.get(name, _MISSING), money.below(name)),
        )
        for name in names
        if json_text.compact(before.get(name)) != json_text.compact(after.get(name))
        or (name in before) != (name in after)
    ]


def _members(values: Mapping[str, Any], depth: int, room: list[int], money: Money) -> Iterator[Node]:
    pair = next((each for each in _PAIRS if each[0] in values and each[1] in values), ())
    currency = scalars.currency_in(values)
    for name, value in values.items():
        if name not in pair:
            room[0] -= 1
            if room[0] >= 0:
                yield _node(str(name), value, depth, currency, room, money.below(str(name)))
    if pair:
        was, now = ((values[each], money.below(each)) for each in pair)
        yield _change(f"{pair[0]} → {pair[1]}", was, now)


def _node(name: str, value: Any, depth: int, currency: str | None, room: list[int], money: Money) -> Node:
    shown = visible(name)
    if isinstance(value, Mapping) and value and depth < DEEPEST:
        return Node(shown, children=tuple(_members(value, depth + 1, room, money)))
    if isinstance(value, list | tuple) and value and depth < DEEPEST and not scalars.is_short_list(value):
        count = f"{len(value):,} items" if len(value) > 1 else "1 item"
        return Node(shown, count, children=tuple(_items(value, depth + 1, currency, room, money)))
    return Node(shown, visible(scalars.words(value, money, currency)), scalars.moment_in(value))


def _items(
    items: Sequence[Any], depth: int, currency: str | None, room: list[int], money: Money
) -> Iterator[Node]:
    for at, item in enumerate(items):
        room[0] -= 1
        if room[0] >= 0:
            yield _node(str(at + 1), item, depth, currency, room, money.below(at))


def _change(name: str, was: _Side, now: _Side) -> Node:
    shown, before, after = visible(name), was[0], now[0]
    if isinstance(before, str) and isinstance(after, str) and _reads_as_diff(before, after):
        lines = difflib.unified_diff(before.split("\n"), after.split("\n"), lineterm="", n=1)
        return Node(shown, diff=tuple((line[:1], visible(line[1:])) for line in list(lines)[2:]))
    return Node(shown, _side(*now), was=_side(*was))


def _reads_as_diff(before: str, after: str) -> bool:
    """Multi-line texts, unless diffing takes too long."""
    return "\n" in before + after and len(before) + len(after) <= MAX_DIFFED


def _side(value: Any, money: Money) -> str:
    return "not there" if value is _MISSING else visible(scalars.words(value, money))

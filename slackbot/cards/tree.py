"""Objects in readable form, indented, or as a diff. Each value is inert and bounded; omissions are counted."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Any

from signoff.formats import NO_MONEY, Money
from signoff.json_paths import steps_of
from signoff.visible_text import visible
from slackbot.cards import blocks, inert, json_text, scalars
from slackbot.cards.values import Json

MAX_NAME = 60
MAX_VALUE = 500
MAX_SIDE = 200  # of a value before or after a change
MAX_DEPTH = 5
MAX_DIFF_LINES = 40
MAX_DIFF = 1500
MAX_COUNTED = 500
MAX_DIFFED = 20_000  # comparing longer texts takes too long

_PAIRS = (("before", "after"), ("old", "new"))
_MISSING = object()


@dataclass(frozen=True, slots=True)
class ValueRow:
    """`left_out`: omitted characters."""

    depth: int
    section: Json
    weight: int
    left_out: int
    box: str = ""  # shown unchanged below the line


@dataclass(frozen=True, slots=True)
class ShownValues:
    """A readable form of some values as blocks, with how many values and characters were left out."""

    parts: list[Json]
    values_left_out: int = 0
    characters_left_out: int = 0

    @property
    def complete(self) -> bool:
        return not self.values_left_out and not self.characters_left_out


MAX_CHANGES = 20


Called = Callable[[str], str]
"""What a name is called."""


def show_values(
    values: Mapping[str, Any], limit: int, most: int = 30, money: Money = NO_MONEY, called: Called = str
) -> ShownValues:
    """Show values in at most `most` lines of total weight `limit`."""
    return _within(limit, most, _members(values, 0, money, called))


def changes(
    before: Mapping[str, Any], after: Mapping[str, Any], limit: int, money: Money = NO_MONEY
) -> ShownValues:
    """Differences between two look-ups, as `name: before → after`."""
    return _within(limit, MAX_CHANGES, _differences("", before, after, 0, (money, money)))


def edits(changed: Iterable[tuple[str, Any, Any]], limit: int, money: Money = NO_MONEY) -> ShownValues:
    """`changed`: (path, before, after)."""
    rows = (
        row
        for path, before, after in changed
        for row in _change(path.removeprefix("$."), before, after, 0, (below(money, path),) * 2)
    )
    return _within(limit, MAX_CHANGES, rows)


def below(money: Money, path: str) -> Money:
    """Return the declared currencies below a JSON path; none if a mask stands in the path."""
    try:
        return money.below(*steps_of(path))
    except ValueError:  # a mask stands in the path
        return NO_MONEY


def _members(values: Mapping[str, Any], depth: int, money: Money, called: Called) -> Iterator[ValueRow]:
    if depth == 0 and (pair := _pair(values)):
        before, after = pair
        rest = {k: v for k, v in values.items() if k not in (before, after)}
        yield from _members(rest, depth, money, called)
        yield from _pair_change(f"{before} → {after}", values, pair, depth, money)
        return
    currency = scalars.currency_in(values)
    for name, value in values.items():
        yield from _value(called(str(name)), value, depth, currency, money.below(str(name)), called)


def _value(
    name: str, value: Any, depth: int, currency: str | None, money: Money, called: Called
) -> Iterator[ValueRow]:
    deeper = depth < MAX_DEPTH
    if isinstance(value, Mapping) and value and deeper:
        if pair := _pair(value):
            rest = {key: each for key, each in value.items() if key not in pair}
            yield from _pair_change(name, value, pair, depth, money)
            yield from _members(rest, depth + 1, money, called)
        else:
            yield _line(name, "", depth)
            yield from _members(value, depth + 1, money, called)
    elif isinstance(value, list | tuple) and value and deeper and not scalars.is_short_list(value):
        yield _line(name, f"{len(value):,} items" if len(value) > 1 else "1 item", depth)
        for at, item in enumerate(value):
            yield from _value(f"{at + 1}", item, depth + 1, currency, money.below(at), called)
    else:
        yield _line(name, scalars.words(value, money, currency), depth, value)


def _line(name: str, said: str, depth: int, value: Any = None) -> ValueRow:
    words, left_out = _cut(said, MAX_VALUE)
    pieces = [_label(name), blocks.text(words)]
    if left_out == 0 and (at := scalars.moment_in(value)):
        pieces += [blocks.text(" ("), blocks.moment(at), blocks.text(")")]
    return _row(depth, pieces, left_out + _cut(name, MAX_NAME)[1])


def _pair(values: Mapping[str, Any]) -> tuple[str, str] | None:
    return next((pair for pair in _PAIRS if pair[0] in values and pair[1] in values), None)


def _pair_change(
    name: str, values: Mapping[str, Any], pair: tuple[str, str], depth: int, money: Money
) -> Iterator[ValueRow]:
    before, after = pair
    sides = money.below(before), money.below(after)
    yield from _change(name, values[before], values[after], depth, sides)


def _differences(
    path: str, before: Mapping[str, Any], after: Mapping[str, Any], depth: int, money: tuple[Money, Money]
) -> Iterator[ValueRow]:
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, _MISSING), after.get(name, _MISSING)
        if not _same(old, new):
            sides = money[0].below(name), money[1].below(name)
            yield from _change(f"{path}{name}", old, new, depth, sides)


def _change(name: str, old: Any, new: Any, depth: int, money: tuple[Money, Money]) -> Iterator[ValueRow]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _differences(f"{name}." if len(name) < MAX_NAME else "", old, new, depth, money)
        if same := sum(_same(old[key], new.get(key, _MISSING)) for key in old):
            yield replace(_line(name, f"{same:,} unchanged", depth), left_out=1)
        return
    if isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        yield _text_change(name, old, new, depth)
        return
    (was, was_cut), (now, now_cut) = (
        _cut(_side(each, declared), MAX_SIDE) for each, declared in zip((old, new), money, strict=True)
    )
    pieces = [_label(name), blocks.text(f"{was} → "), blocks.text(now, bold=True)]
    yield _row(depth, pieces, was_cut + now_cut + _cut(name, MAX_NAME)[1])


def _text_change(name: str, old: str, new: str, depth: int) -> ValueRow:
    if len(old) + len(new) > MAX_DIFFED:
        difference = [f"- {len(old):,} characters", f"+ {len(new):,} characters"]
    else:
        lines = difflib.unified_diff(old.split("\n"), new.split("\n"), lineterm="", n=1)
        difference = [visible(each).replace("\n", "⏎") for each in lines][2:]
    box, _ = inert.cut("\n".join(difference[:MAX_DIFF_LINES]), MAX_DIFF)
    pieces = [_label(name), blocks.text(f"changed in these lines, of {new.count(chr(10)) + 1:,}")]
    return _row(depth, pieces, len(new), box or "(no lines differ)")  # a difference is never the whole text


def _side(value: Any, money: Money) -> str:
    return "nothing" if value is _MISSING else scalars.words(value, money)


def _same(old: Any, new: Any) -> bool:
    """Compare as JSON: `1` is not `true`, and a missing key equals nothing."""
    if old is _MISSING or new is _MISSING:
        return False
    return old == new and json_text.compact(old) == json_text.compact(new)


def _within(limit: int, most: int, rows: Iterator[ValueRow]) -> ShownValues:
    kept: list[ValueRow] = []
    used, more = 0, False
    for row in rows:
        used += row.weight
        if more := used > limit or len(kept) == most:
            break
        kept.append(row)
    parts = list(_parts(kept))
    # Counting further means drawing further: too slow for a hundred thousand values.
    unshown = 1 + sum(1 for _ in islice(rows, MAX_COUNTED)) if more else 0
    if unshown:
        at_least = "at least " if unshown > MAX_COUNTED else ""
        note = f"… {at_least}{unshown:,} more {'value' if unshown == 1 else 'values'} not shown here"
        parts.append(blocks.section(blocks.text(note, italic=True)))
    return ShownValues(parts, unshown, sum(row.left_out for row in kept))


def _parts(rows: Sequence[ValueRow]) -> Iterator[Json]:
    for (depth, boxed), group in groupby(rows, lambda row: (row.depth, bool(row.box))):
        lines = list(group)
        if not boxed:
            yield blocks.bullets((row.section for row in lines), depth)
            continue
        for row in lines:
            yield blocks.bullets([row.section], depth)
            yield blocks.preformatted(row.box)


def _row(depth: int, pieces: list[Json], left_out: int, box: str = "") -> ValueRow:
    section = blocks.section(*pieces)
    seen = "".join(piece.get("text", "") + piece.get("fallback", "") for piece in section["elements"])
    return ValueRow(depth, section, inert.weight(seen) + inert.weight(box), left_out, box)


def _label(name: str) -> Json:
    return blocks.text(f"{_cut(name, MAX_NAME)[0] or 'unnamed'}: ", bold=True)


def _cut(said: str, limit: int) -> tuple[str, int]:
    words, is_cut = inert.line_and_rest(said, limit)
    return words, max(1, len(said) - limit) if is_cut else 0

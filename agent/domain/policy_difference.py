"""What one policy's text changes in another's, in lines that people read."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from signoff.description import shorten, word_start

MAX_LINES = 40
MAX_VALUE = 160
"""Characters of a value; of a long text only the words around its first difference."""

_LEAD = 40
"""Characters before the first difference, so that a secret stays behind its name."""
_NAMES = {"checkpoint": "checkpoint_id", "limit": "name", "facts": "tool"}
"""Of each list of tables, the key that names a table."""

_Tables = Mapping[str, Mapping[str, Any]]


def difference(before: str, after: str) -> list[str]:
    """Return what was added, removed and changed (key by key, before → after); lines beyond 40 are counted."""
    try:
        old, new = _tables(before), _tables(after)
    except (tomllib.TOMLDecodeError, RecursionError, KeyError, TypeError):
        return ["the earlier text cannot be compared"]
    lines = list(_lines(old, new)) or ["only comments or layout"]
    more = len(lines) - MAX_LINES
    return [*lines[:MAX_LINES], f"and {more:,} more"] if more > 0 else lines


def _tables(text: str) -> _Tables:
    """Each table by its label, checkpoints in their order."""
    found: dict[str, Mapping[str, Any]] = {}
    for kind, given in tomllib.loads(text).items():
        if kind in _NAMES:
            found |= {f"{kind} {table[_NAMES[kind]]}": table for table in given}
        else:
            found[f"[{kind}]"] = given
    return found


def _lines(old: _Tables, new: _Tables) -> Iterator[str]:
    yield from (f"added: {label}{_about(new[label])}" for label in new if label not in old)
    yield from (f"removed: {label}{_about(old[label])}" for label in old if label not in new)
    for label in new:
        if label in old:
            yield from (f"changed: {label}: {what}" for what in _changes("", old[label], new[label]))
    stayed = [label for label in new if label in old and label.startswith("checkpoint ")]
    if stayed != (earlier := [label for label in old if label in new and label.startswith("checkpoint ")]):
        first = next(at for at, (was, now) in enumerate(zip(earlier, stayed, strict=True)) if was != now)
        yield f"changed: the order of checkpoints, from {stayed[first]} on"


def _about(table: Mapping[str, Any]) -> str:
    verdict = "denies " if table.get("verdict") == "deny" else ""
    pattern = table.get("action_pattern")
    return f" ({verdict}{_shown(pattern)})" if pattern is not None else ""


def _changes(path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for key in dict.fromkeys([*old, *new]):
        was, now = old.get(key), new.get(key)
        name = f"{path}{key}"
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            yield from _changes(f"{name}.", was, now)
        elif was is not None and now is not None and type(was) is type(now) is list:
            yield from _changed_list(name, was, now)
        elif was != now or type(was) is not type(now):
            yield f"{name} {' → '.join(_apart(was, now))}"


def _changed_list(name: str, was: Sequence[Any], now: Sequence[Any]) -> Iterator[str]:
    added = [each for each in now if each not in was]
    removed = [each for each in was if each not in now]
    parts = [f"{word} {_shown(each)}" for word, each in (("added", added), ("removed", removed)) if each]
    if parts:
        yield f"{name} {', '.join(parts)}"
    elif was != now:
        yield f"{name} {_shown(was)} → {_shown(now)}"


def _apart(was: Any, now: Any) -> tuple[str, str]:
    """Both as they are shown; two long texts from a little before their difference."""
    if not (isinstance(was, str) and isinstance(now, str)) or max(len(was), len(now)) <= MAX_VALUE:
        return _shown(was), _shown(now)
    pairs = zip(was, now, strict=False)
    same = next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(was), len(now)))
    start = word_start(was, max(0, same - _LEAD))
    lead = "…" if start else ""
    return _shown(lead + was[start:]), _shown(lead + now[start:])


def _shown(value: Any) -> str:
    """As in the file; dates are texts. Cut between words, however long: nobody recognises part of a secret."""
    if value is None:
        return "not set"
    written = json.dumps(value, ensure_ascii=False, default=str)
    return written if len(written) <= MAX_VALUE else shorten(written, word_start(written, MAX_VALUE))

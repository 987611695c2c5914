"""Cut a context to the size limit, and count the omissions. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from signoff.canonical import MAX_BYTES, plain_json
from signoff.json_paths import Step, format_path

MAX_CONTEXT = MAX_BYTES // 2
"""Bytes of JSON, if the other fields leave that much."""

MAX_VALUES = 10_000
_SLACK = 4096
"""For names, the version and other spellings of numbers."""

_LEAST = 2048

_STEPS = ((65_536, 4096), (16_384, 1024), (4096, 256), (1024, 64), (256, 16), (64, 4))
"""Characters per text and members per object or array, tried in order."""


def fit_context(context: Any, other_fields: Mapping[str, Any]) -> Any:
    """Cut the context to fit. Raises MalformedArguments if it is not JSON."""
    whole = plain_json(context)
    room = max(_LEAST, min(MAX_CONTEXT, MAX_BYTES - _SLACK - _size(other_fields)))
    for text, members in ((MAX_BYTES, MAX_VALUES), *_STEPS):
        shown = _cut(whole, (), text, members)
        if _size(shown) <= room and _count(shown) <= MAX_VALUES:
            return shown
    return _cut(json.dumps(whole, ensure_ascii=False), (), room // 8, 0)


def _cut(value: Any, steps: tuple[Step, ...], text: int, members: int) -> Any:
    match value:
        case str() if len(value) > text:
            half = text // 2
            return f"{value[:half]} {_left_out(len(value) - 2 * half, len(value), 'characters', steps)} {value[-half:]}"
        case list():
            half = len(value) if len(value) <= members else members // 2
            first = [_cut(each, (*steps, i), text, members) for i, each in enumerate(value[:half])]
            if half == len(value):
                return first
            begin = len(value) - half
            last = [_cut(each, (*steps, begin + i), text, members) for i, each in enumerate(value[begin:])]
            return [*first, _left_out(begin - half, len(value), "items", steps), *last]
        case dict():
            kept = (
                list(value)
                if len(value) <= members
                else [*list(value)[: members // 2], *list(value)[-members // 2 :]]
            )
            shown = {key: _cut(value[key], (*steps, key), text, members) for key in kept}
            left = len(value) - len(kept)
            return shown | ({"…": _left_out(left, len(value), "fields", steps)} if left else {})
        case _:
            return value


def _left_out(left: int, total: int, what: str, steps: tuple[Step, ...]) -> str:
    return f"[… {left:,} of {total:,} {what} of agent_context{format_path(steps)[1:]} left out …]"


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def _count(value: Any) -> int:
    match value:
        case list():
            return 1 + sum(map(_count, value))
        case dict():
            return 1 + sum(map(_count, value.values()))
        case _:
            return 1

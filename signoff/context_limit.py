"""Cut a context to the size limit, and count the omissions. Pure.

Texts are cut between words, so that no half of a secret is left that nobody recognises.
"""

import json
from collections.abc import Mapping
from typing import Any

from signoff.canonical import MAX_BYTES, plain_json
from signoff.description import whole_words
from signoff.json_paths import Step, format_path

MAX_CONTEXT = MAX_BYTES // 2
"""Bytes of JSON, if the other fields leave that much."""

MAX_VALUES = 10_000
_SLACK = 4096
"""For names, the version and other spellings of numbers."""

_LEAST = 2048
_MOST_SENT = 4 * MAX_BYTES - _SLACK
"""Bytes of one request's body."""

_STEPS = ((65_536, 4096), (16_384, 1024), (4096, 256), (1024, 64), (256, 16), (64, 4))
"""Characters per text and members per object or array, tried in order."""


def fit_context(context: Any, other_fields: Mapping[str, Any], *, anywhere: bool = False) -> Any:
    """Cut the context to fit. Raises MalformedArguments if it is not JSON.

    `anywhere`: as earlier versions cut, within words too; for comparison only.
    """
    whole = plain_json(context)
    room = max(_LEAST, min(MAX_CONTEXT, MAX_BYTES - _SLACK - _size(other_fields)))
    for text, members in ((MAX_BYTES, MAX_VALUES), *_STEPS):
        shown = _cut(whole, (), text, members, anywhere)
        if _size(shown) <= room and _count(shown) <= MAX_VALUES:
            return shown
    return _cut(json.dumps(whole, ensure_ascii=False), (), room // 8, 0, anywhere)


def fit_to_send(context: Any, other_fields: Mapping[str, Any]) -> Any:
    """The whole context if one request may have it: the service cuts it, and knows secrets.

    Raises MalformedArguments if it is not JSON.
    """
    whole = plain_json(context)
    others = dict(other_fields)
    fits = _size(whole) + _size(others) <= _MOST_SENT
    if fits and _count(whole) + _count(others) <= 2 * MAX_VALUES - _SLACK:
        return whole
    return fit_context(whole, others)


def _cut(value: Any, steps: tuple[Step, ...], text: int, members: int, anywhere: bool) -> Any:
    match value:
        case str() if len(value) > text:
            half = text // 2
            head, tail = value[:half], value[-half:]
            if not anywhere:
                head, tail = whole_words(head), whole_words(tail[::-1])[::-1]
            left_out = len(value) - len(head) - len(tail)
            return f"{head} {_left_out(left_out, len(value), 'characters', steps)} {tail}"
        case list():
            half = len(value) if len(value) <= members else members // 2
            first = [_cut(each, (*steps, i), text, members, anywhere) for i, each in enumerate(value[:half])]
            if half == len(value):
                return first
            begin = len(value) - half
            last = [
                _cut(each, (*steps, begin + i), text, members, anywhere)
                for i, each in enumerate(value[begin:])
            ]
            return [*first, _left_out(begin - half, len(value), "items", steps), *last]
        case dict():
            kept = (
                list(value)
                if len(value) <= members
                else [*list(value)[: members // 2], *list(value)[-members // 2 :]]
            )
            shown = {key: _cut(value[key], (*steps, key), text, members, anywhere) for key in kept}
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

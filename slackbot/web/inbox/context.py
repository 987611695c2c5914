"""A request's stored context. Programs also write it, so unknown formats are shown as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackbot.cards import json_text

_KNOWN = ("task", "transcript", "earlier_calls", "omitted")


@dataclass(frozen=True, slots=True)
class EarlierCall:
    tool: str
    state: str
    arguments: str
    answer: str


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Parsed; neither escaped nor masked."""

    task: str
    calls: Sequence[EarlierCall]
    talk: Sequence[TranscriptLine]
    omitted: str
    more: str


def read(stored: Mapping[str, Any]) -> RequestContext | None:
    if not stored:
        return None
    rest = {name: value for name, value in stored.items() if name not in _KNOWN}
    return RequestContext(
        task=_text(stored.get("task")),
        calls=[_call(each) for each in _sequence(stored.get("earlier_calls"))],
        talk=[
            TranscriptLine(_member(each, "role") or "somebody", _member(each, "text"))
            for each in _sequence(stored.get("transcript"))
        ],
        omitted=_text(stored.get("omitted") or None),
        more=json_text.readable(rest) if rest else "",
    )


def _call(stored: Any) -> EarlierCall:
    if not isinstance(stored, Mapping):
        return EarlierCall(_text(stored), "", "", "")
    given = stored.get("arguments")
    arguments = (
        "" if given in (None, {}, "") else given if isinstance(given, str) else json_text.readable(given)
    )
    return EarlierCall(
        _member(stored, "tool"), _member(stored, "state"), arguments, _member(stored, "answer")
    )


def _member(value: Any, name: str) -> str:
    return _text(value.get(name) if isinstance(value, Mapping) else value)


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json_text.compact(value)


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else []

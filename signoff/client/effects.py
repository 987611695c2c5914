"""Operations yield effects and do no I/O, so both clients share them.

A client sends each effect's result in, or throws ``NoResponse`` or the function's error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """``seconds`` limits the wait for the response."""

    method: str
    path: str
    json: Any = None
    query: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """``content`` is ``None`` if it was not JSON."""

    status: int
    headers: Mapping[str, str]
    content: Any


@dataclass(frozen=True, slots=True)
class Sleep:
    """An effect by which an operation pauses for this many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CallFunction:
    """An effect by which an operation calls the program's function and gets its result or error."""

    function: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class LookUpFacts:
    """An effect by which an operation looks up facts with the program's function."""

    function: Callable[[], Any]


class NoResponse(Exception):
    """The service may or may not have processed the request."""


Operation = Generator[HttpRequest | Sleep | CallFunction | LookUpFacts, Any, T]

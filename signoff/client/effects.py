"""Effects that an operation yields. Operations do no I/O, so both clients share them.

A client answers an ``HttpRequest`` with an ``HttpResponse`` or throws ``NoResponse`` in, sleeps for a ``Sleep``, and
sends a ``CallFunction``'s result or throws its error in.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """``seconds`` limits the wait for the response."""

    method: str
    path: str
    json: Any = None
    query: Mapping[str, str] = field(default_factory=dict)
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
    """Pause for this many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CallFunction:
    """Call the program's function with the approved arguments."""

    function: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class LookUpFacts:
    """The program's facts function is sync or async with either client."""

    function: Callable[[], Any]


class NoResponse(Exception):
    """The service may or may not have carried the request out."""


Operation = Generator[HttpRequest | Sleep | CallFunction | LookUpFacts, Any, T]

"""Effects that an operation yields. Operations do no I/O, so both clients share them.

A client answers an ``HttpRequest`` with an ``HttpResponse`` or throws ``NoResponse`` in, sleeps for a ``Sleep``, and
sends the result of a ``CallFunction`` or throws its error in.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One HTTP request; ``seconds`` limits the wait for its response."""

    method: str
    path: str
    json: Any = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The service's response; ``content`` is ``None`` if it was not JSON."""

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
    """Call the program's facts function, sync or async with either client."""

    function: Callable[[], Any]


class NoResponse(Exception):
    """No response arrived. The service may or may not have carried the request out."""


Operation = Generator[HttpRequest | Sleep | CallFunction | LookUpFacts, Any, T]

"""The effects that an operation yields, so that operations do no I/O and are written once for both clients.

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
    """One HTTP request; ``seconds`` is how long its answer may take."""

    method: str
    path: str
    json: Any = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What the service answered; ``content`` is ``None`` when it was no JSON."""

    status: int
    headers: Mapping[str, str]
    content: Any


@dataclass(frozen=True, slots=True)
class Sleep:
    """A pause of so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CallFunction:
    """The program's own function, with the arguments that people approved."""

    function: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class LookUpFacts:
    """The program's look-up of facts: ordinary or async, whatever the client."""

    function: Callable[[], Any]


class NoResponse(Exception):
    """No response came. The service may have carried the request out or not."""


Operation = Generator[HttpRequest | Sleep | CallFunction | LookUpFacts, Any, T]

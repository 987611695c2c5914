"""An operation as steps, written once for both clients: it yields what is to be done and is sent what came of it.

``Call`` is answered with an ``Answer``, or ``Unreached`` is thrown in; ``Pause`` is slept through; ``Run`` calls the
caller's own function, and what that raises is thrown in.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request; ``seconds`` is how long its answer may take."""

    method: str
    path: str
    json: Any = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the service answered; ``content`` is ``None`` when it was no JSON."""

    status: int
    headers: Mapping[str, str]
    content: Any


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing, for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """The function that waits for people, with the arguments that they agreed to."""

    function: Callable[[], Any]


class Unreached(Exception):
    """No answer came; the call may have been carried out or not."""


Steps = Generator[Call | Pause | Run, Any, T]

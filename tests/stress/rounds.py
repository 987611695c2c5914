"""The rounds of a test, counted while `make stress` watches (`tests.stress.progress`). Otherwise nobody counts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass
class Case:
    """One test with one set of parameters, as far as it has come."""

    test: str
    expected: float
    """Seconds."""
    rounds: int = 1
    done: int = 0
    failed: int = 0
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0

    @property
    def words(self) -> str:
        """The promise, as the name of its test has it."""
        return self.test.removeprefix("test_").replace("_", " ")

    @property
    def share(self) -> float:
        """How much of it is done, between 0 and 1. Where there are no rounds, the clock has to do."""
        if self.rounds > 1:
            return min(self.done / self.rounds, 1.0)  # Hypothesis plays some more
        return min((time.monotonic() - self.began) / self.expected, 0.95)


present: Case | None = None
"""The case that runs, if somebody watches."""


def counted(rounds: Sequence[T]) -> Iterator[T]:
    """Go through the rounds of a test, and count each when it is over."""
    begin(len(rounds))
    for each in rounds:
        yield each
        done()


def begin(rounds: int) -> None:
    """So many rounds the present test has."""
    if present:
        present.rounds, present.done = rounds, 0


def done(*, failed: bool = False) -> None:
    """One round of the present test is over."""
    if present:
        present.done += 1
        present.failed += failed

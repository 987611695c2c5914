"""Rounds are counted only while `make stress` watches (`tests.stress.progress`)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass
class Case:
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
        """As the test's name states it."""
        return self.test.removeprefix("test_").replace("_", " ")

    @property
    def share(self) -> float:
        """Between 0 and 1; by time where there are no rounds."""
        if self.rounds > 1:
            return min(self.done / self.rounds, 1.0)  # Hypothesis runs some more
        return min((time.monotonic() - self.began) / self.expected, 0.95)


present: Case | None = None


def counted(rounds: Sequence[T]) -> Iterator[T]:
    begin(len(rounds))
    for each in rounds:
        yield each
        done()


def begin(rounds: int) -> None:
    if present:
        present.rounds, present.done = rounds, 0


def done(*, failed: bool = False) -> None:
    if present:
        present.done += 1
        present.failed += failed

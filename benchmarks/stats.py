"""Quantiles, and confidence intervals of ratios.

Samples of one round resemble each other more than those of another, so the bootstrap draws pairs of rounds, not single
samples.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

DRAWS = 2_000
SURE = 0.95

Rounds = list[list[float]]
Statistic = Callable[[Sequence[float]], float]


@dataclass(frozen=True)
class Ratio:
    """Ours over the peer's, with the 95 % interval of the bootstrap."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        sure = "" if self.low == self.high else f" ({self.low:.2f} to {self.high:.2f})"
        return f"{self.value:.2f}{sure}"


def quantile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that at least this share does not exceed."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(samples: Sequence[float]) -> float:
    return quantile(samples, 0.5)


def p99(samples: Sequence[float]) -> float:
    return quantile(samples, 0.99)


def pooled(rounds: Rounds) -> list[float]:
    return list(chain.from_iterable(rounds))


def ratio(ours: Rounds, peer: Rounds, of: Statistic) -> Ratio:
    """A statistic of all our samples over the peer's. Both must have the same number of rounds. With a single round,
    both ends of the interval are the value.
    """
    draw = random.Random(0)  # the same samples give the same interval
    numbers = range(len(ours))
    drawn: list[float] = []
    for _ in range(DRAWS):
        chosen = [draw.choice(numbers) for _ in numbers]
        drawn.append(of(pooled([ours[n] for n in chosen])) / of(pooled([peer[n] for n in chosen])))
    tail = (1 - SURE) / 2
    return Ratio(of(pooled(ours)) / of(pooled(peer)), quantile(drawn, tail), quantile(drawn, 1 - tail))

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.ground import Ground
from signoff_demo.sandbox import SlackSandbox

APART = 0.05
"""Seconds between sequential samples, so that one's aftermath does not affect the next."""

VOTERS = 8
"""Concurrent votes: one per database connection for decisions."""


@dataclass(frozen=True)
class Size:
    """Rounds that alternate with the peer's, and samples per round."""

    rounds: int
    clicks: int
    crowd: int
    votes: int
    calls: int
    transactions: int
    waiting: int
    window: float
    due: int
    paced: int
    waiters: int


FULL = Size(
    rounds=10,
    clicks=60,
    crowd=60,
    votes=60,
    calls=240,
    transactions=60,
    waiting=1_000_000,
    window=30,
    due=100_000,
    paced=250,
    waiters=5_000,
)
QUICK = Size(
    rounds=3,
    clicks=15,
    crowd=20,
    votes=20,
    calls=80,
    transactions=30,
    waiting=50_000,
    window=10,
    due=5_000,
    paced=100,
    waiters=1_000,
)


@dataclass(frozen=True)
class Setting:
    ground: Ground
    slack: SlackSandbox
    size: Size

"""A pace that allows short bursts after a rest, like Slack's limits."""

from __future__ import annotations

from dataclasses import dataclass

BURST = 4
"""Calls that may follow each other quickly after a rest."""


@dataclass
class Allowance:
    """One per `pace` seconds in the long run; after a rest the first `BURST` are `step` seconds apart."""

    step: float
    pace: float
    paid_until: float = 0.0

    def spend(self, now: float) -> float:
        """Record a call; returns the seconds until the next."""
        self.paid_until = max(self.paid_until, now) + self.pace
        return max(self.step, self.paid_until - (BURST - 1) * self.pace - now)

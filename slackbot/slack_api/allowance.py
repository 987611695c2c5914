"""A pace that allows short bursts after a rest, like Slack's limits."""

from __future__ import annotations

from dataclasses import dataclass

BURST = 4


@dataclass
class Allowance:
    """One per `pace` seconds in the long run; after a rest the first `BURST` are `step` seconds apart."""

    step: float
    pace: float
    paid_until: float = 0.0

    def spend(self, now: float) -> float:
        """Returns the seconds until the next call."""
        self.paid_until = max(self.paid_until, now) + self.pace
        return max(self.step, self.paid_until - (BURST - 1) * self.pace - now)

"""A pace that allows short bursts after a rest, as Slack's limits do."""

from __future__ import annotations

from dataclasses import dataclass

BURST = 4
"""How many may follow each other quickly after a rest."""


@dataclass
class Allowance:
    """One each `pace` seconds in the long run; after a rest the first `BURST` are only `step` seconds apart."""

    step: float
    pace: float
    paid_until: float = 0.0

    def spend(self, now: float) -> float:
        """Something is done now; seconds until the next may follow."""
        self.paid_until = max(self.paid_until, now) + self.pace
        return max(self.step, self.paid_until - (BURST - 1) * self.pace - now)

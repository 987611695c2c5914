"""Back-off: pauses between attempts, each twice as long as the one before, up to a limit."""

from __future__ import annotations

from dataclasses import dataclass

_ENOUGH = 60
"""Doublings that reach any limit; many more would overflow."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds of the first and the longest pause.

    `spread`: the least and the greatest factor, so that what failed together does not come back together.
    """

    first: float
    longest: float
    spread: tuple[float, float] = (1.0, 1.0)

    def after(self, failures: int, chance: float = 0.0, asked: float | None = None) -> float:
        """The pause after so many failures (from 1), and no less than was ``asked`` for.

        ``chance``: from 0 to 1, the place within the spread.
        """
        least, greatest = self.spread
        doubled = min(self.longest, self.first * 2.0 ** min(failures - 1, _ENOUGH))
        return max(asked or 0.0, doubled * (least + (greatest - least) * chance))

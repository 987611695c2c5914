"""Which limits over time had no room when this process last looked."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from agent.domain.limits import LimitState, Use

MOST_KNOWN = 1_000


class FullLimits:
    """A hint that spares adding up twice what just runs: the claim adds it up under its locks in any case.

    A claim that finds no room has the call judged again, with these limits added up first.
    """

    def __init__(self) -> None:
        self._refused: dict[tuple[str, str], Decimal] = {}
        """The least that found no room. What takes less may find some, and says nothing about what takes more."""

    def may_have_room(self, uses: Iterable[Use]) -> bool:
        """Whether a claim may well find room for these. What cannot be counted never has any."""
        return all(
            use.amount is not None and ((least := self._refused.get(use.key)) is None or use.amount < least)
            for use in uses
        )

    def learn(self, states: Iterable[LimitState]) -> None:
        """Take over how these have been found."""
        for state in states:
            if state.verdict != "run":
                self.add([state.use])
            elif not self.may_have_room([state.use]):
                del self._refused[state.use.key]

    def add(self, uses: Iterable[Use]) -> None:
        """One of these had no room at a claim."""
        if len(self._refused) >= MOST_KNOWN:
            self._refused.clear()
        for use in uses:
            if use.amount is not None:
                self._refused[use.key] = min(use.amount, self._refused.get(use.key, use.amount))

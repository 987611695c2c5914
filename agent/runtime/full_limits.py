"""Limits over time that had no room lately, and so are added up before a claim."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from agent.domain.limits import LimitState, Use

MAX_KNOWN = 1_000


class FullLimits:
    """Known full limits are added up before the claim, which adds up under its locks in any case."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, str], Decimal] = {}
        """The smallest refused amount: smaller ones may find room."""

    def may_have_room(self, uses: Iterable[Use]) -> bool:
        """Uncountable amounts never have room."""
        return all(
            use.amount is not None and ((least := self._refused.get(use.key)) is None or use.amount < least)
            for use in uses
        )

    def update(self, states: Iterable[LimitState]) -> None:
        for state in states:
            if state.verdict != "run":
                self.add([state.use])
            elif self._refused and not self.may_have_room([state.use]):
                del self._refused[state.use.key]

    def add(self, uses: Iterable[Use]) -> None:
        if len(self._refused) >= MAX_KNOWN:
            self._refused.clear()
        for use in uses:
            if use.amount is not None:
                self._refused[use.key] = min(use.amount, self._refused.get(use.key, use.amount))

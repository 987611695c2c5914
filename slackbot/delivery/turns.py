"""Fair turns in a channel: the sender with the least recent use goes next.

Slack accepts about one message a second: with round-robin, ten senders of large cards would delay another's single
card by all ten.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

HALF_LIFE = 60.0
"""Of a sender's use, in seconds: the period of the limit on its new cards."""

MAX_SENDERS = 100


class Turns:
    """A record of how much each sender has used a channel lately; the one with the least goes next."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._at = clock()
        self._used: dict[str, float] = {}

    def charge(self, turn: str, seconds: float) -> None:
        """Add ``seconds`` to the use of this sender (`DueMessage.turn`)."""
        now = self._clock()
        rest = 0.5 ** ((now - self._at) / HALF_LIFE)
        self._at = now
        used = {each: before * rest for each, before in self._used.items()}
        used[turn] = used.pop(turn, 0.0) + seconds  # after senders with the same use
        self._used = dict(sorted(used.items(), key=lambda item: item[1])[-MAX_SENDERS:])

    @property
    def least_first(self) -> list[str]:
        """Senders with recorded use; all others go before them."""
        return list(self._used)

"""Whose message goes next in a channel: that of the sender who has used the least of the channel's time lately.

Slack takes about one message a second, and a large card takes longer to draw: ten senders that took turns one by one
would delay another's single card by ten large ones.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

HALF_LIFE = 60.0
"""Seconds after which what a sender has used counts half: as long as the limit on its new cards looks back."""

MOST_SENDERS = 100
"""Senders that are remembered for each channel, those who have used the most."""


class Turns:
    """The senders of one channel and the time that each has used."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._at = clock()
        self._used: dict[str, float] = {}

    def charge(self, turn: str, seconds: float) -> None:
        """This sender (`DueMessage.turn`) has used so much of the channel's time."""
        now = self._clock()
        rest = 0.5 ** ((now - self._at) / HALF_LIFE)
        self._at = now
        used = {each: before * rest for each, before in self._used.items()}
        used[turn] = used.pop(turn, 0.0) + seconds  # behind whoever has used as much before
        self._used = dict(sorted(used.items(), key=lambda item: item[1])[-MOST_SENDERS:])

    @property
    def least_first(self) -> list[str]:
        """Who has used something. All others go before them."""
        return list(self._used)

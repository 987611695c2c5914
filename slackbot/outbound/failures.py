"""How an attempt to tell somebody can fail."""

from __future__ import annotations


class RetryLater(Exception):
    """It may be taken later; `seconds` is how long the receiver asked us to wait, if it did."""

    def __init__(self, words: str, seconds: float | None = None) -> None:
        super().__init__(words)
        self.seconds = seconds


class Undeliverable(Exception):
    """The receiver does not want it, now or later."""

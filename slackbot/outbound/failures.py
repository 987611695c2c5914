"""How an attempt to notify a receiver can fail."""

from __future__ import annotations


class RetryLater(Exception):
    """A later attempt may succeed; `seconds` is the receiver's Retry-After, if any."""

    def __init__(self, words: str, seconds: float | None = None) -> None:
        super().__init__(words)
        self.seconds = seconds


class Undeliverable(Exception):
    """The receiver does not accept it, now or later."""

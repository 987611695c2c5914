"""Why a webhook or an e-mail was not delivered: later, or never."""

from __future__ import annotations


class RetryLater(Exception):
    """A later attempt may succeed; `seconds`: the receiver's Retry-After."""

    def __init__(self, words: str, seconds: float | None = None) -> None:
        super().__init__(words)
        self.seconds = seconds


class Undeliverable(Exception):
    """The receiver will never accept it."""

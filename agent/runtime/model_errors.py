"""Why the model gave no usable answer."""

from __future__ import annotations

from signoff.errors import SignoffError


class ModelError(SignoffError):
    """The text is safe to show: no key, body or address. `retry_after`: seconds, if requested."""

    def __init__(self, text: str, *, retryable: bool, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retryable = retryable
        self.retry_after = retry_after


def unusable(why: str) -> ModelError:
    """Return the error for a model's answer that cannot be used; the turn may be tried again."""
    return ModelError(f"the model's answer cannot be used: {why}", retryable=True)

"""That a model gave no usable answer: of what was said on the way, and of the answer itself."""

from __future__ import annotations

from signoff.errors import SignoffError


class ModelError(SignoffError):
    """The model gave no usable answer. The text is safe to show: no key, no body, no address.

    `retryable`: asking again may help. `retry_after`: seconds that the provider asked us to wait, if it did.
    """

    def __init__(self, text: str, *, retryable: bool, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retryable = retryable
        self.retry_after = retry_after


def unusable(why: str) -> ModelError:
    """An answer that says nothing we can go by; the next one may."""
    return ModelError(f"the model's answer cannot be used: {why}", retryable=True)

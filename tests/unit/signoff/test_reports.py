"""What a program reports is cut between words: nobody recognises half a secret."""

from __future__ import annotations

from typing import Any

import pytest

from signoff.client.attempts import MAX_ERROR, MAX_RESULT, report
from signoff.client.reviews import ClaimedAction

KEY = "AKIA" + "Q7" * 8
CLAIMED = ClaimedAction("i", "r-1", "pay", {}, "0" * 64, 1, False, 1, "e", "k", "token")


@pytest.mark.parametrize("inside", range(1, len(KEY)))
@pytest.mark.parametrize(("field", "most"), [("error", MAX_ERROR), ("result", MAX_RESULT)])
def test_a_long_report_ends_before_a_secret_that_it_would_cut(field: str, most: int, inside: int) -> None:
    """Wherever the limit cuts through a key, no piece of the key is sent, and the omission is counted."""
    filling = "word " * (most // 5)
    text = f"{filling[: most - inside - 1]} {KEY} and more"
    given: dict[str, Any] = {field: text if field == "error" else object_saying(text)}
    operation = report(CLAIMED, **given)
    sent: Any = next(operation)
    words = sent.json[field]
    assert KEY[:inside] not in words.rpartition("…")[0][-inside - 1 :]
    assert "characters)" in words


def object_saying(text: str) -> object:
    """A result without a JSON form, which is reported as text."""

    class Said:
        def __str__(self) -> str:
            return text

    return Said()

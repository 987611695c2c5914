"""What a program that was started again knows of what an earlier life of it began."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from signoff.client import AttemptOutcome, Review, earlier_outcome
from signoff.errors import AlreadyClaimed


def review(execution: dict[str, Any] | None) -> Review:
    """An approved request whose latest attempt stands so."""
    return Review.of(
        {
            "id": "01a1febd",
            "request_id": "run-1:call-1",
            "status": "approved",
            "lapsed": False,
            "description": "Delete 50 records",
            "action": {"tool": "delete_records", "arguments": {"count": 50}},
            "digest": "00" * 32,
            "revision": 1,
            "edited": False,
            "decided_by": {"user_id": "U0GRACE"},
            "approved_by": [{"user_id": "U0GRACE"}],
            "reason": None,
            "expires_at": "2026-11-21T11:20:33Z",
            "execution": execution,
        }
    )


@dataclass(frozen=True)
class Case:
    """An attempt, and what is known of it."""

    status: str
    settled_as: str | None = None
    result: str | None = None
    error: str | None = None
    known: AttemptOutcome | None = None


@pytest.mark.parametrize(
    "case",
    [
        Case("succeeded", result="Deleted 50", known=AttemptOutcome(True, "Deleted 50")),
        Case("succeeded", known=AttemptOutcome(True, "")),
        Case("failed", error="the disk is full", known=AttemptOutcome(False, "the disk is full")),
        Case(
            "in_doubt", "done", known=AttemptOutcome(True, "A person marked it as done; there is no result.")
        ),
        Case("in_doubt", "retry"),
    ],
    ids=str,
)
def test_what_is_known_is_told(case: Case) -> None:
    """A reported or settled outcome is returned; an action that a person wants retried may begin."""
    execution = {"settled_as": case.settled_as, "result": case.result, "error": case.error}
    assert earlier_outcome(review({"status": case.status, **execution})) == case.known


@pytest.mark.parametrize("status", ["claimed", "in_doubt"])
def test_what_nobody_knows_is_not_begun_again(status: str) -> None:
    """An attempt that is running or in doubt does not begin again."""
    with pytest.raises(AlreadyClaimed, match="its outcome is not known yet"):
        earlier_outcome(review({"status": status, "settled_as": None, "result": None, "error": None}))


def test_what_was_never_begun_may_be() -> None:
    """Without an attempt there is nothing to know, and it may begin."""
    assert earlier_outcome(review(None)) is None

"""Lines of a thread that differ only in what they are about."""

from __future__ import annotations

from typing import Any

from slackbot.cards import combine_lines, count_alike, run_line, thread_line
from tests.unit.cards.conftest import words

AT = "2027-01-30T09:00:00+00:00"


def pending(order: int, **more: Any) -> dict[str, Any]:
    return {
        "line": "pending",
        "text": f"Refund order {order}",
        "channel": "C0REVIEW",
        "call": f"{order:03}",
        **more,
    }


def expired(order: int, **more: Any) -> dict[str, Any]:
    return {"line": "decided", "outcome": "expired", "text": f"Refund order {order}", "at": AT, **more}


def test_many_become_one_short_line() -> None:
    """Thirteen that ended in the same way are one sentence, in the order of the calls."""
    (asked,) = count_alike([pending(n) for n in reversed(range(13))])
    assert words(run_line(asked).blocks) == (
        "⏳ Waiting for review · 13 requests in C0REVIEW: Refund order 0, Refund order 1 and 11 more"
    )
    (ended,) = count_alike([expired(n) for n in range(13)])
    assert words(run_line(ended).blocks) == (
        "⌛ Expired · 13 requests: Refund order 0, Refund order 1 and 11 more. Nobody decided in time, "
        "which is not a rejection; nothing was run."
    )
    (used,) = count_alike([{"line": "grant_used", "text": f"Refund order {n}", "n": n} for n in range(3)])
    assert words(thread_line(used).blocks) == (
        "▶ Used without asking · 3 calls: Refund order 0, Refund order 1 and Refund order 2"
    )


def test_what_differs_stays_apart() -> None:
    """Another outcome, person, channel or line in between begins a new line; one alone is shown in full."""
    told = [
        pending(1),
        pending(2, channel="C0OTHER"),
        expired(1),
        expired(2, outcome="approved", user="U0GRACE"),
        expired(3, outcome="approved", user="U0LINUS"),
        {"line": "resumed"},
    ]
    assert count_alike(told) == told


def test_a_persons_words_are_never_counted_away() -> None:
    """A line with a reason or note is shown with it."""
    told = [expired(n, outcome="rejected", user="U0GRACE", reason=f"No {n}") for n in range(13)]
    assert count_alike(told) == told
    shown = words(combine_lines([run_line(each) for each in count_alike(told)]).blocks)
    assert "No 0" in shown

"""The words of verdicts and outcomes."""

from __future__ import annotations

from agent.domain.request import RequestStatus, Verdict
from agent.domain.run import AnswerKind
from agent.domain.verdicts import OUTCOMES, REFUSALS, VERDICTS
from signoff.client.reviews import _CAUSES


def test_every_verdict_and_status_has_its_words() -> None:
    """A new one without words fails here instead of on a card."""
    assert set(OUTCOMES) == set(RequestStatus)
    assert set(VERDICTS) == set(Verdict)


def test_programs_and_agents_learn_the_same_cause() -> None:
    """The client cannot import the table, so its causes are compared; a lapsed approval has expired, too."""
    refused = {status: words.cause for status, words in OUTCOMES.items() if words.cause}
    assert {"approved": "expired", **refused} == _CAUSES
    assert {AnswerKind(cause).value for cause in REFUSALS} == set(REFUSALS)
    assert all(words.cause == words.status.word for words in OUTCOMES.values() if words.cause)


def test_an_outcome_says_that_nothing_was_run_unless_it_was_approved() -> None:
    """Expiry says in addition that it is no rejection."""
    said = {name: f"{words.heading}{words.consequence}" for name, words in OUTCOMES.items()}
    assert said == {
        "waiting": "⏳ Waiting for review",
        "approved": "✅ Approved",
        "rejected": "❌ Rejected. Nothing was run.",
        "expired": "⌛ Expired. Nobody decided in time, which is not a rejection; nothing was run.",
        "cancelled": "🚫 Withdrawn. Nothing was run.",
        "answered": "💬 Answered",
    }

"""The exception tree and the sentences that refused people read."""

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest

from agent.domain.errors import LeaseLost, NotFound, PolicyError, Refusal, Refused, sentence
from signoff.errors import CollaborationError, Conflict, MalformedArguments, SignoffError


def test_everything_is_a_signoff_error():
    """`except SignoffError` catches all of our errors."""
    for kind in (CollaborationError, Conflict, LeaseLost, MalformedArguments, NotFound, PolicyError, Refused):
        assert issubclass(kind, SignoffError)


def test_every_refusal_has_its_own_sentence():
    """No two reasons for a refusal read the same, and none is empty."""
    sentences = {sentence(code) for code in Refusal}
    assert len(sentences) == len(Refusal)
    assert all(text.endswith((".", "so nothing was recorded.")) for text in sentences)


def test_self_review_names_the_setting():
    """A person who may not review their own request learns which setting forbids it."""
    assert "prevent_self_review" in Refused(Refusal.SELF_REVIEW).sentence


def test_a_late_clicker_is_told_who_decided_and_when():
    """The sentence contains the outcome, the person and the time (in UTC); missing facts are left out."""
    at = datetime(2026, 11, 21, 13, 40, tzinfo=timezone(timedelta(hours=1)))
    refused = Refused(Refusal.ALREADY_DECIDED, outcome="approved", by="Ann", at=at)
    assert refused.code is Refusal.ALREADY_DECIDED
    assert "already approved by Ann at 2026-11-21 12:40 UTC" in refused.sentence
    assert "already decided; " in sentence(Refusal.ALREADY_DECIDED)
    assert "12:00 UTC" in sentence(Refusal.EXPIRED, at=datetime(2026, 11, 21, 12, tzinfo=UTC))


@pytest.mark.parametrize("cause", ["rejected", "expired"])
def test_collaboration_error_starts_with_its_cause(cause):
    """The log line of a stopped run begins with what stopped it; expired is not rejected."""
    assert str(CollaborationError(cause, request_id="r1")).startswith(cause)
    error = CollaborationError("rejected", request_id="r1", reason="too much", reviewer="U1")
    assert str(error) == "rejected by U1: too much (request r1)"
    assert (error.cause, error.request_id, error.reason, error.reviewer) == (
        "rejected",
        "r1",
        "too much",
        "U1",
    )


def test_policy_error_keeps_its_problems_apart():
    """Each problem of a checkpoints file can be shown on a line of its own."""
    assert PolicyError(["a:1: x", "a:2: y"]).problems == ["a:1: x", "a:2: y"]


@pytest.mark.parametrize(
    "error",
    [
        SignoffError("words"),
        MalformedArguments("$.a", "is no JSON"),
        CollaborationError("rejected", request_id="r-1", reason="No", reviewer="U0GRACE"),
        Refused(Refusal.NOT_A_REVIEWER),
        PolicyError(["one", "two"]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_travel_between_processes(error):
    """What a durable framework pickles comes back as it was: kind, words and facts."""
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))

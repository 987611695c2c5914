"""The count of votes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.tally import LiveVote, tally
from agent.domain.verdicts import VERDICTS

people = st.tuples(st.sampled_from(["T1", "T2"]), st.sampled_from(["U1", "U2", "U3", "U4"]))
votes = st.lists(
    st.builds(lambda p, v: LiveVote(p[0], p[1], v), people, st.sampled_from(["approve", "reject"])),
    max_size=9,
)


@given(votes, st.integers(1, 5))
def test_outcome_follows_from_distinct_people(cast, quorum):
    """One rejection rejects; otherwise as many distinct people as required approve; otherwise it waits."""
    result = tally(cast, quorum)
    approvers = {(v.team_id, v.user_id) for v in cast if v.verdict == "approve"}
    rejected = any(v.verdict == "reject" for v in cast)
    assert result.approvals == len(approvers)
    assert result.needed == max(0, quorum - len(approvers))
    assert result.outcome == ("rejected" if rejected else "approved" if len(approvers) >= quorum else None)


@pytest.mark.parametrize("verdict", VERDICTS)
def test_one_vote_ends_a_request_as_its_words_say(verdict):
    """Where one approval is enough, each vote leads to the outcome that the table of words has for it."""
    assert tally([LiveVote("T1", "U1", verdict)], 1).outcome is VERDICTS[verdict].outcome.status


def test_ten_votes_of_one_person_are_one():
    """A quorum of two is not met by one person who votes ten times."""
    assert tally([LiveVote("T1", "U1", "approve")] * 10, 2).outcome is None


def test_the_same_user_id_in_another_workspace_is_another_person():
    """People are distinguished by team and user."""
    votes = [LiveVote("T1", "U1", "approve"), LiveVote("T2", "U1", "approve")]
    assert tally(votes, 2).outcome == "approved"


def test_nobody_has_voted():
    """Silence decides nothing."""
    assert tally([], 1).outcome is None


@pytest.mark.parametrize(("verdict", "quorum"), [("approved", 1), ("", 1), ("approve", 0)])
def test_defects_are_not_taken_for_votes(verdict, quorum):
    """An unknown verdict or a quorum below one raises instead of deciding."""
    with pytest.raises(ValueError, match=r"Verdict|approval"):
        tally([LiveVote("T1", "U1", verdict)], quorum)

"""Votes are counted: is there a decision, or how many approvals are missing?"""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.domain.request import RequestStatus, Verdict
from agent.domain.verdicts import VERDICTS


@dataclass(frozen=True)
class LiveVote:
    """The latest on the current revision, by somebody with the right."""

    team_id: str
    user_id: str
    verdict: str


@dataclass(frozen=True)
class Tally:
    """``needed``: missing approvals."""

    outcome: RequestStatus | None
    approvals: int
    needed: int


def tally(votes: Sequence[LiveVote], approvals_required: int) -> Tally:
    """One vote against decides; else so many distinct people must approve. Raises ValueError: could become consent."""
    if approvals_required < 1:
        raise ValueError(f"a request needs at least one approval, not {approvals_required}")
    given = {Verdict(vote.verdict) for vote in votes}
    approvals = len({(vote.team_id, vote.user_id) for vote in votes if vote.verdict == Verdict.APPROVE})
    needed = max(0, approvals_required - approvals)
    # At most one kind: the first vote against ends the request.
    if against := given - {Verdict.APPROVE}:
        return Tally(VERDICTS[min(against)].outcome.status, approvals, needed)
    return Tally(None if needed else RequestStatus.APPROVED, approvals, needed)

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["approved", "rejected"]


@dataclass(frozen=True)
class LiveVote:
    """The latest on the current revision, by somebody with the right."""

    team_id: str
    user_id: str
    verdict: str


@dataclass(frozen=True)
class Tally:
    """``needed``: missing approvals."""

    outcome: Outcome | None
    approvals: int
    needed: int


def tally(votes: Sequence[LiveVote], approvals_required: int) -> Tally:
    """One rejection decides; else so many distinct people must approve. Raises ValueError: could become consent."""
    if approvals_required < 1:
        raise ValueError(f"a request needs at least one approval, not {approvals_required}")
    unknown = {vote.verdict for vote in votes} - {"approve", "reject"}
    if unknown:
        raise ValueError(f"no verdict: {min(unknown)!r}")
    approvals = len({(vote.team_id, vote.user_id) for vote in votes if vote.verdict == "approve"})
    needed = max(0, approvals_required - approvals)
    if any(vote.verdict == "reject" for vote in votes):
        return Tally("rejected", approvals, needed)
    return Tally(None if needed else "approved", approvals, needed)

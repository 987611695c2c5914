"""Votes are counted: is there a decision, or how many approvals or equal answers are missing?"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agent.domain.request import RequestStatus, Verdict
from agent.domain.verdicts import VERDICTS

FOR = frozenset((Verdict.APPROVE, Verdict.ANSWER))
"""The verdicts of which enough are required."""


@dataclass(frozen=True)
class LiveVote:
    """The latest on the current revision, by somebody with the right."""

    team_id: str
    user_id: str
    verdict: str
    answer: str | None = None
    """What it answers, as something to compare."""


@dataclass(frozen=True)
class Tally:
    """``needed``: missing approvals, or answers like the most frequent one. ``approvals``: as many as there are.

    While there is no outcome, at least one more vote is needed.
    """

    outcome: RequestStatus | None
    approvals: int
    needed: int


def tally(votes: Sequence[LiveVote], approvals_required: int, answer: str | None = None) -> Tally:
    """One vote against decides; else so many distinct people must approve, or answer alike.

    ``answer``: what the vote says that has just come. It decides for no other answer, although as many may be alike by
    then, because somebody's right has come back. Raises ValueError: could become consent.
    """
    if approvals_required < 1:
        raise ValueError(f"a request needs at least one approval, not {approvals_required}")
    given = {Verdict(vote.verdict) for vote in votes}
    alike = Counter(
        said for _, _, said in {(v.team_id, v.user_id, v.answer) for v in votes if v.verdict in FOR}
    )
    approvals = max(alike.values(), default=0)
    needed = max(0, approvals_required - approvals)
    # At most one kind: the first vote against ends the request.
    if against := given - FOR:
        return Tally(VERDICTS[min(against)].outcome.status, approvals, needed)
    if alike[answer] < approvals_required:
        return Tally(None, approvals, max(1, needed))
    outcome = RequestStatus.ANSWERED if Verdict.ANSWER in given else RequestStatus.APPROVED
    return Tally(outcome, approvals, needed)

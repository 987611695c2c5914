"""The state of a request or a run, in words."""

from __future__ import annotations

from collections.abc import Collection

from agent.domain.limits import written
from agent.domain.request import ApprovalState, ExecutionStatus, RequestStatus
from agent.domain.request_list import RequestLine
from agent.domain.request_view import GrantView, RequestView
from agent.domain.run import CallOutcome, Hold, RunStatus
from agent.domain.verdicts import OUTCOMES

SETTLED = {"done": "✅ Marked as done", "retry": "↻ Retry requested"}
"""A person's verdict on an execution in doubt."""


def of_request(standing: RequestStatus | ApprovalState) -> str:
    """Return the words for a request's state, or for what has become of its approval."""
    if isinstance(standing, ApprovalState):
        return _APPROVAL_WORDS.get(standing, f"{OUTCOMES[RequestStatus.APPROVED].title}, {standing.value}")
    return OUTCOMES[standing].title


def of_run(standing: RunStatus | CallOutcome | ExecutionStatus | Hold) -> str:
    """Return the words for a run's state, what holds it, or how its call has ended."""
    if isinstance(standing, CallOutcome):
        return f"Ended: {_ending(standing)}"
    waits = standing is RunStatus.PENDING_APPROVAL
    return OUTCOMES[RequestStatus.WAITING].title if waits else standing.value.replace("_", " ").capitalize()


def of_outcomes(outcomes: Collection[CallOutcome]) -> str:
    """`done, rejected`, without what is still open."""
    ended = [each for each in CallOutcome if each in outcomes and each is not CallOutcome.OPEN]
    return ", ".join(map(_ending, ended))


def progress(given: int, needed: int, counted: str = "approvals") -> str:
    """`1 of 2 approvals`; empty if one is enough and none is given."""
    return "" if needed == 1 and not given else f"{given} of {needed} {counted}"


def counted(request: RequestView | RequestLine) -> str:
    """What a request needs so many of."""
    return "equal answers" if request.wants_answer else "approvals"


def grant_uses(grant: GrantView) -> str:
    """`3 of 20 times, 450 of 5,000 in total`."""
    total = (
        f", {written(grant.used_sum)} of {written(grant.max_sum)} in total"
        if grant.max_sum is not None
        else ""
    )
    return f"{grant.uses:,} of {grant.max_uses:,} times{total}"


_APPROVAL_WORDS = {
    ApprovalState.VOID: "Approval void",
    ApprovalState.LAPSED: "Approval lapsed",
    ApprovalState.HANDED_OVER: "Handed over",
    ApprovalState.RETRYING: "Failed, will be retried",
}
_ENDINGS = {CallOutcome.DENIED: "denied by policy", CallOutcome.NOTHING_DONE: "nothing was done"}


def _ending(outcome: CallOutcome) -> str:
    return _ENDINGS.get(outcome) or outcome.value.replace("_", " ")

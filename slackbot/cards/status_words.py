"""A request's status in a few plain words: for fallback texts, lists, and wherever rich text does not fit."""

from __future__ import annotations

from agent.domain.limits import written
from agent.domain.request import ExecutionStatus, RequestStatus, Verdict
from agent.domain.request_view import ExecutionView, GrantView, RequestView

SETTLED = {"done": "✅ Marked as done", "retry": "↻ Retry asked for"}
"""What a person said of an execution in doubt, as its card shows it."""


def of_request(view: RequestView) -> str:
    """The status in two or three plain words, for fallback texts and lists."""
    if view.status is RequestStatus.APPROVED:
        if view.voided:
            return "Approval void"
        if view.lapsed_at is not None:
            return "Approval lapsed" if view.handed_over_at is None else "Handed over"
        if view.execution is None:
            return "Approved, not run" if view.stopped else "Approved"
        return _execution_words(view.execution)
    return _WORDS[view.status]


def _execution_words(execution: ExecutionView) -> str:
    if execution.status is ExecutionStatus.IN_DOUBT and execution.settled_as in SETTLED:
        return f"Approved, {SETTLED[execution.settled_as].partition(' ')[2].lower()}"
    if execution.retry_at is not None:
        return "Failed, will be retried"
    return _EXECUTION_WORDS[execution.status]


def of_status(status: RequestStatus) -> str:
    """The status for a line of a list, which knows nothing of executions."""
    return _WORDS[status]


def progress(given: int, needed: int) -> str:
    """`1 of 2 approvals`; empty if one is enough and none is given."""
    return "" if needed == 1 and not given else f"{given} of {needed} approvals"


def approvals(view: RequestView) -> int:
    """The number of approvals so far."""
    return sum(vote.verdict is Verdict.APPROVE for vote in view.votes)


def grant_uses(grant: GrantView) -> str:
    """`3 of 20 times, 450 of 5,000 in total`."""
    total = (
        f", {written(grant.used_sum)} of {written(grant.max_sum)} in total"
        if grant.max_sum is not None
        else ""
    )
    return f"{grant.uses:,} of {grant.max_uses:,} times{total}"


_WORDS = {
    RequestStatus.WAITING: "Waiting for review",
    RequestStatus.APPROVED: "Approved",
    RequestStatus.REJECTED: "Rejected",
    RequestStatus.EXPIRED: "Expired",
    RequestStatus.CANCELLED: "Withdrawn",
}
_EXECUTION_WORDS = {
    ExecutionStatus.CLAIMED: "Approved, running",
    ExecutionStatus.SUCCEEDED: "Approved, done",
    ExecutionStatus.FAILED: "Approved, failed",
    ExecutionStatus.IN_DOUBT: "Approved, in doubt",
}

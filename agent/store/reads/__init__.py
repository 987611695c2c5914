"""Rows to values; nothing here changes anything. All functions take an open connection."""

from agent.store.reads.requests import (
    BallotPaper,
    ballot_paper,
    count_waiting,
    execution_request,
    request_in_thread,
    request_view,
    requests_like,
    waiting_requests,
)
from agent.store.reads.runs import (
    CallAtWork,
    call_at_work,
    calls,
    messages,
    recent_runs,
    run_in_thread,
    run_view,
    runs_like,
)
from agent.store.reads.schema import schema_version

__all__ = [
    "BallotPaper",
    "CallAtWork",
    "ballot_paper",
    "call_at_work",
    "calls",
    "count_waiting",
    "execution_request",
    "messages",
    "recent_runs",
    "request_in_thread",
    "request_view",
    "requests_like",
    "run_in_thread",
    "run_view",
    "runs_like",
    "schema_version",
    "waiting_requests",
]

"""Rows to values; nothing here changes anything. All functions take an open connection."""

from agent.store.reads.floods import Flood, flood
from agent.store.reads.lists import (
    audiences,
    count_waiting,
    history,
    recently_decided,
    requests_of,
    waiting_for,
    waiting_requests,
)
from agent.store.reads.pulse import pulse
from agent.store.reads.requests import (
    BallotPaper,
    Rejection,
    StoredPlace,
    ballot_paper,
    place_for,
    rejection,
    request_in_thread,
    request_view,
    request_views,
    requests_like,
)
from agent.store.reads.runs import (
    CallAtWork,
    CancelPaper,
    call_at_work,
    calls,
    cancel_paper,
    messages,
    recent_runs,
    run_in_thread,
    run_view,
    running,
    runs_like,
)
from agent.store.reads.schema import schema_version

__all__ = [
    "BallotPaper",
    "CallAtWork",
    "CancelPaper",
    "Flood",
    "Rejection",
    "StoredPlace",
    "audiences",
    "ballot_paper",
    "call_at_work",
    "calls",
    "cancel_paper",
    "count_waiting",
    "flood",
    "history",
    "messages",
    "place_for",
    "pulse",
    "recent_runs",
    "recently_decided",
    "rejection",
    "request_in_thread",
    "request_view",
    "request_views",
    "requests_like",
    "requests_of",
    "run_in_thread",
    "run_view",
    "running",
    "runs_like",
    "schema_version",
    "waiting_for",
    "waiting_requests",
]

"""This process's counters for `/metrics`, updated after COMMIT. Labels have few, fixed values."""

from __future__ import annotations

from prometheus_client import Counter

from agent.domain.request import ExecutionStatus, RequestStatus

DECISIONS = Counter(
    "signoff_decisions",
    "Decided requests by outcome, counted in the process that decided them.",
    ["outcome"],
)
EXECUTIONS = Counter("signoff_executions", "Ended attempts at executing an action, by outcome.", ["outcome"])
GRANT_USES = Counter("signoff_grant_uses", "Calls that began under a grant, without asking people.")

# Prometheus misses a new counter's first increase, so each begins at 0.
for status in RequestStatus:
    if status is not RequestStatus.WAITING:
        DECISIONS.labels(status.word)
for ended in ExecutionStatus:
    if ended is not ExecutionStatus.CLAIMED:
        EXECUTIONS.labels(ended.value)

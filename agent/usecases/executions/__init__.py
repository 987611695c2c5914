"""Attempts to run a call: by our own workers (`internal`), and by programs elsewhere (`external`)."""

from agent.usecases.executions.attempts import MAX_ATTEMPTS, Outcome
from agent.usecases.executions.internal import (
    LEASE_SECONDS,
    Claim,
    call_off,
    claim,
    find_claim,
    renew_leases,
    report,
    void_and_ask,
)
from agent.usecases.executions.lost_executions import rescue

__all__ = [
    "LEASE_SECONDS",
    "MAX_ATTEMPTS",
    "Claim",
    "Outcome",
    "call_off",
    "claim",
    "find_claim",
    "renew_leases",
    "report",
    "rescue",
    "void_and_ask",
]

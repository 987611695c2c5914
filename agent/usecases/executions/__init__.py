"""Attempts to run a call: by our own workers (`internal`), and by programs elsewhere (`external`)."""

from agent.usecases.attempts import LEASE_SECONDS, MAX_ATTEMPTS, Claim, ClaimTerms, Outcome
from agent.usecases.executions.internal import (
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
    "ClaimTerms",
    "Outcome",
    "call_off",
    "claim",
    "find_claim",
    "renew_leases",
    "report",
    "rescue",
    "void_and_ask",
]

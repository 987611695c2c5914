"""Attempts to run a call: by our own workers (`internal`), and by programs elsewhere (`external`)."""

from agent.usecases.attempts import LEASE_SECONDS, MAX_ATTEMPTS, Claim, ClaimTerms, Outcome
from agent.usecases.executions.claims import CallToClaim, claim, claim_together, find_claim
from agent.usecases.executions.internal import (
    Report,
    call_off,
    renew_leases,
    report,
    report_together,
    void_and_ask,
)
from agent.usecases.executions.lost_executions import rescue

__all__ = [
    "LEASE_SECONDS",
    "MAX_ATTEMPTS",
    "CallToClaim",
    "Claim",
    "ClaimTerms",
    "Outcome",
    "Report",
    "call_off",
    "claim",
    "claim_together",
    "find_claim",
    "renew_leases",
    "report",
    "report_together",
    "rescue",
    "void_and_ask",
]

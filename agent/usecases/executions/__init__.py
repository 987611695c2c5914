"""Attempts to run a call: by our own workers (`internal`), and by programs elsewhere (`external`)."""

from agent.usecases.executions.internal import (
    LEASE_SECONDS,
    Claim,
    Outcome,
    call_off,
    claim,
    renew_leases,
    report,
    rescue,
    void_and_ask,
)

__all__ = [
    "LEASE_SECONDS",
    "Claim",
    "Outcome",
    "call_off",
    "claim",
    "renew_leases",
    "report",
    "rescue",
    "void_and_ask",
]

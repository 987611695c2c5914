from agent.usecases.attempts import LEASE_SECONDS, MAX_ATTEMPTS, Claim, ClaimTerms, Outcome
from agent.usecases.executions.claims import CallToClaim, ClaimCalls, find_claim
from agent.usecases.executions.internal import (
    Report,
    WriteReports,
    call_off,
    renew_leases,
    void_and_ask,
)
from agent.usecases.executions.lost_executions import rescue

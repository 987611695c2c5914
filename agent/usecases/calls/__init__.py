"""Attempts at calls: claims and reports, of workers and programs."""

from agent.usecases.calls.attempts import LEASE_SECONDS, MAX_ATTEMPTS, Claim, ClaimTerms, Outcome, undone
from agent.usecases.calls.claims import (
    ApprovedCall,
    BegunCall,
    CallToClaim,
    ClaimApproved,
    ClaimCalls,
    find_claim,
)
from agent.usecases.calls.lost_attempts import renew_leases, rescue
from agent.usecases.calls.reports import AttemptReport, WriteReports

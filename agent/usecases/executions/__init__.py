from agent.usecases.attempts import LEASE_SECONDS, MAX_ATTEMPTS, Claim, ClaimTerms, Outcome, undone
from agent.usecases.executions.claims import CallToClaim, ClaimCalls, find_claim
from agent.usecases.executions.lapses import lapse_due
from agent.usecases.executions.lost_executions import renew_leases, rescue
from agent.usecases.executions.reports import Report, WriteReports
from agent.usecases.executions.voids import call_off, end_unclaimed, void_and_ask

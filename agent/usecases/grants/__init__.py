"""Grants: given, used and ended."""

from agent.usecases.grants.endings import end_all, revoke, revoke_as_operator
from agent.usecases.grants.giving import GrantProposal, propose
from agent.usecases.grants.uses import (
    Cover,
    ProgramCall,
    claim,
    find_use,
    granted,
    has_used,
    use_by_program,
)

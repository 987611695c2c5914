"""For agents that live elsewhere: ask people over HTTP, wait for their word, act on it once, say how it went."""

from agent.client.clients import ApprovalClient, AsyncApprovalClient
from agent.client.conclusion import concluded, ended
from agent.client.values import Claim, Decision, Ending, Review
from signoff.errors import AlreadyClaimed, ApiError, Unreachable

__all__ = [
    "AlreadyClaimed",
    "ApiError",
    "ApprovalClient",
    "AsyncApprovalClient",
    "Claim",
    "Decision",
    "Ending",
    "Review",
    "Unreachable",
    "concluded",
    "ended",
]

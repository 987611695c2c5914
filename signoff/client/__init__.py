"""Client for programs outside the service."""

from signoff.client.clients import ApprovalClient, AsyncApprovalClient
from signoff.client.many import ProposedAction
from signoff.client.reviews import (
    Approval,
    AttemptOutcome,
    ClaimedAction,
    GivenAnswer,
    Review,
    answered,
    concluded,
    earlier_outcome,
)
from signoff.errors import AlreadyClaimed, ApiError, FactsFailed, Unreachable

__all__ = [
    "AlreadyClaimed",
    "ApiError",
    "Approval",
    "ApprovalClient",
    "AsyncApprovalClient",
    "AttemptOutcome",
    "ClaimedAction",
    "FactsFailed",
    "GivenAnswer",
    "ProposedAction",
    "Review",
    "Unreachable",
    "answered",
    "concluded",
    "earlier_outcome",
]

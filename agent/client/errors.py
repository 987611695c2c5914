"""What can go wrong between a program and the service. `CollaborationError` and `TimeoutError` are people's answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.domain.errors import Conflict, SignoffError


class ApiError(SignoffError):
    """The service refuses: `status` and `kind` say what (RFC 9457), the text says why.

    401: the key is not valid. 403: it may not, or policy denies the action. 404: there is no such request.
    """

    def __init__(self, status: int, kind: str, words: str, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(words)
        self.status = status
        self.kind = kind
        self.problem = dict(problem or {})


class AlreadyClaimed(ApiError, Conflict):
    """Somebody has begun with this already, or did so in an earlier life: it is not begun twice."""


class Unreachable(SignoffError, ConnectionError):
    """The service did not answer in time; nothing is known of what became of the call."""

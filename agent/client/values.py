"""What a program learns: a request as it stands, people's decision about it, and the right to act on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

Status = Literal["waiting", "approved", "rejected", "expired", "cancelled", "not_required"]


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended: its result as text, or the error; as it was reported, or as a person settled it."""

    succeeded: bool
    text: str


@dataclass(frozen=True, slots=True)
class Review:
    """A request as it stands now. `arguments` have their secrets masked; a claim has them in full.

    `id` is the service's own name for it, `request_id` the caller's. `reviewer` is the Slack user id of who decided.
    `raw` is everything that the service says of it.
    """

    id: str
    request_id: str
    status: Status
    lapsed: bool
    description: str
    action: str
    arguments: Mapping[str, Any]
    digest: str
    revision: int
    edited: bool
    reviewer: str | None
    reason: str | None
    expires_at: datetime
    raw: Mapping[str, Any] = field(repr=False)

    @property
    def ending(self) -> Ending | None:
        """What became of the attempt; `None` while there was none, it is under way, or nobody knows (in doubt)."""
        attempt = self.raw.get("execution") or {}
        if attempt.get("status") == "succeeded":
            return Ending(True, attempt["result"] or "")
        if attempt.get("status") == "failed":
            return Ending(False, attempt["error"] or "")
        if attempt.get("settled_as") == "done":
            return Ending(True, "A person marked it as done; there is no result.")
        return None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Review:
        """From the service's JSON. Raises KeyError, TypeError and ValueError for what is none of a request."""
        return cls(
            id=told["id"],
            request_id=told["request_id"],
            status=told["status"],
            lapsed=told["lapsed"],
            description=told["description"],
            action=told["action"]["tool"],
            arguments=told["action"]["arguments"],
            digest=told["digest"],
            revision=told["revision"],
            edited=told["edited"],
            reviewer=(told["decided_by"] or {}).get("user_id"),
            reason=told["reason"],
            expires_at=datetime.fromisoformat(told["expires_at"]),
            raw=told,
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """The action may go ahead: people approved it, or (`not_required`) policy lets it run unasked.

    `arguments` are those that were asked about, or what a reviewer made of them (`edited`; their secrets are masked
    then, and `claim` has them in full).
    """

    status: Literal["approved", "not_required"]
    action: str
    arguments: Mapping[str, Any]
    request_id: str
    revision: int = 1
    edited: bool = False
    reviewer: str | None = None
    reason: str | None = None
    id: str | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to do it, once, with the arguments in full as they were decided.

    `idempotency_key` is the same for every attempt at this request: hand it on to whatever can use one.
    """

    id: str
    request_id: str
    action: str
    arguments: Mapping[str, Any]
    digest: str
    revision: int
    edited: bool
    attempt: int
    execution_id: str
    idempotency_key: str
    token: str = field(repr=False)

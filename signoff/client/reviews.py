"""A request as it stands, its approval, and the right to act on it. Nothing but an approval is consent."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal

from signoff.errors import AlreadyClaimed, CollaborationError

log = logging.getLogger("signoff.client")

Status = Literal["waiting", "approved", "rejected", "expired", "cancelled", "not_required"]


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """How an attempt ended: its result as text, or the error; as it was reported, or as a person settled it."""

    succeeded: bool
    text: str


@dataclass(frozen=True, slots=True)
class Review:
    """A request as it stands now. `arguments` have their secrets masked; a claim has them in full.

    `id` is the service's name for it, `request_id` the caller's; `reviewer` the Slack user id of who decided; `raw`
    all that the service says.
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
    def notes(self) -> tuple[str, ...]:
        """What the reviewers who approved it wrote, oldest first."""
        approvals = (vote for vote in self.raw.get("votes", ()) if vote["verdict"] == "approve")
        return tuple(vote["reason"] for vote in approvals if (vote["reason"] or "").strip())

    @property
    def outcome(self) -> AttemptOutcome | None:
        """What became of the attempt; `None` while there was none, it is under way, or nobody knows (in doubt)."""
        attempt = self.raw.get("execution") or {}
        if attempt.get("status") == "succeeded":
            return AttemptOutcome(True, attempt["result"] or "")
        if attempt.get("status") == "failed":
            return AttemptOutcome(False, attempt["error"] or "")
        if attempt.get("settled_as") == "done":
            return AttemptOutcome(True, "A person marked it as done; there is no result.")
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
class Approval:
    """The action may go ahead: people approved it, or (`not_required`) policy lets it run unasked.

    `arguments` are those that were asked about, or what a reviewer made of them (`edited`; their secrets are masked
    then, and `claim` has them in full). `notes` is what the reviewers wrote when they approved it, for whoever goes on
    with it, a model too; `reason` is the note of the last one.
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
    notes: tuple[str, ...] = ()

    def __setstate__(self, state: Sequence[Any]) -> None:
        """Unpickle; what an earlier version has pickled has fewer fields, and the others have their defaults."""
        given = iter(state)
        for each in fields(self):
            object.__setattr__(self, each.name, next(given, each.default))


@dataclass(frozen=True, slots=True)
class ClaimedAction:
    """The right to do it, once, with the arguments in full. Hand `idempotency_key` on: it is every attempt's."""

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


_CAUSES: dict[str, Literal["rejected", "expired", "withdrawn"]] = {
    "rejected": "rejected",
    "expired": "expired",
    "approved": "expired",
    "cancelled": "withdrawn",
}


def concluded(review: Review, arguments: Mapping[str, Any] | None = None) -> Approval:
    """The approval of a decided request; an error for everything else.

    ``arguments`` are those that people were asked about, in full. Without them the approval has those of the review,
    in which secrets are masked. Raises CollaborationError (logged before), and TimeoutError while nobody has decided.
    """
    if review.status == "waiting":
        raise TimeoutError(f"nobody has decided yet (request {review.id})")
    if review.status == "approved" and not review.lapsed:
        return Approval(
            status="approved",
            action=review.action,
            arguments=dict(review.arguments if review.edited or arguments is None else arguments),
            request_id=review.request_id,
            revision=review.revision,
            edited=review.edited,
            reviewer=review.reviewer,
            reason=review.reason,
            id=review.id,
            digest=review.digest,
            notes=review.notes,
        )
    reason, cause = review.reason, _CAUSES[review.status]
    if review.status == "approved":
        late = "it was approved, but not claimed in time, so the approval has lapsed"
        changed = "its facts changed before it was claimed, so the approval is void; people are asked again"
        reason = changed if review.raw.get("voided") else late
    error = CollaborationError(cause, request_id=review.id, reason=reason, reviewer=review.reviewer)
    log.error("CollaborationError: %s", error)
    raise error


def earlier_outcome(review: Review) -> AttemptOutcome | None:
    """How an approved action ended before a restart; None: it may start. AlreadyClaimed: running or in doubt."""
    attempt = review.raw["execution"]
    if attempt is None or attempt["settled_as"] == "retry" or review.outcome is not None:
        return review.outcome
    words = f"{review.action} was begun before, and nobody knows yet what became of it (request {review.id})"
    raise AlreadyClaimed(409, "claimed", words)

"""Only an Approval is consent."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from signoff.errors import AlreadyClaimed, Cause, CollaborationError, SignoffError
from signoff.formats import enumerated

log = logging.getLogger("signoff.client")

Status = Literal["waiting", "approved", "answered", "rejected", "expired", "cancelled", "not_required"]


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """How an attempt ended: its result as text, or the error; reported, or settled by a person."""

    succeeded: bool
    text: str


@dataclass(frozen=True, slots=True)
class Review:
    """The current state of a request.

    Secrets in `arguments` are masked. `id` is the service's name for the request, `request_id` the caller's; `reviewer`
    is the Slack user id of the person who completed the decision, `approved_by` the ids of all whose approvals counted;
    `raw` is the service's whole response.
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
    approved_by: tuple[str, ...]
    raw: Mapping[str, Any] = field(repr=False)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of the reviewers who approved, oldest first."""
        approvals = (vote for vote in self.raw.get("votes", ()) if vote["verdict"] == "approve")
        return tuple(vote["reason"] for vote in approvals if (vote["reason"] or "").strip())

    @property
    def outcome(self) -> AttemptOutcome | None:
        """How the attempt ended; `None` if it never started, is running, or is in doubt."""
        attempt = self.raw.get("execution") or {}
        if attempt.get("status") == "succeeded":
            return AttemptOutcome(True, attempt["result"] or "")
        if attempt.get("status") == "failed":
            return AttemptOutcome(False, attempt["error"] or "")
        if attempt.get("settled_as") == "done":
            return AttemptOutcome(True, "A person marked it as done; there is no result.")
        return None

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Review:
        """Raises KeyError, TypeError and ValueError if this is not a request."""
        return cls(
            id=answer["id"],
            request_id=answer["request_id"],
            status=answer["status"],
            lapsed=answer["lapsed"],
            description=answer["description"],
            action=answer["action"]["tool"],
            arguments=answer["action"]["arguments"],
            digest=answer["digest"],
            revision=answer["revision"],
            edited=answer["edited"],
            reviewer=(answer["decided_by"] or {}).get("user_id"),
            reason=answer["reason"],
            expires_at=datetime.fromisoformat(answer["expires_at"]),
            approved_by=tuple(each["user_id"] for each in answer["approved_by"]),
            raw=answer,
        )


@dataclass(frozen=True, slots=True)
class Approval:
    """The action may go ahead: people approved it, or policy allows it without approval (`not_required`).

    `arguments` are the requested ones, or a reviewer's edit (`edited`; secrets are then masked, and `claim` returns
    them in full). `notes` are the reviewers' notes on approval, for the program or model that continues; `reason` is
    the last one. `reviewer` gave the last approval, `approved_by` are all whose approvals counted.
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
    approved_by: tuple[str, ...] = ()

    @property
    def by(self) -> str:
        """` by U1 and U2`: all who approved; empty if nobody had to."""
        return f" by {''.join(enumerated(self.approved_by))}" if self.approved_by else ""


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """What people answered. `reviewer` gave the last answer, `answered_by` are all whose equal answers counted.

    `value` is None once it is erased. It authorises nothing.
    """

    value: Any
    request_id: str
    id: str
    reviewer: str | None = None
    answered_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimedAction:
    """The right to act, once, with the arguments in full. Pass `idempotency_key` on: all attempts share it."""

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


_CAUSES: dict[str, Cause] = {
    "rejected": "rejected",
    "expired": "expired",
    "approved": "expired",
    "cancelled": "withdrawn",
}


def concluded(review: Review, arguments: Mapping[str, Any] | None = None) -> Approval:
    """Turn a decided request into an Approval.

    ``arguments`` are the requested ones, in full; without them, secrets stay masked. Raises CollaborationError (logged
    before), and TimeoutError while nobody has decided.
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
            approved_by=review.approved_by,
        )
    if review.status == "answered":
        raise SignoffError(f"request {review.id} was answered, not approved: see `answered`")
    raise _refusal(review)


def answered(review: Review) -> GivenAnswer:
    """Turn an answered request into a GivenAnswer.

    Raises CollaborationError (logged before), and TimeoutError while nobody has answered.
    """
    if review.status == "waiting":
        raise TimeoutError(f"nobody has answered yet (request {review.id})")
    if review.status != "answered":
        raise _refusal(review)
    by = review.reviewer
    return GivenAnswer(
        value=review.raw.get("answer"),
        request_id=review.request_id,
        id=review.id,
        reviewer=by,
        answered_by=review.approved_by or ((by,) if by else ()),
    )


def _refusal(review: Review) -> CollaborationError:
    """Logged here."""
    reason, cause = review.reason, _CAUSES[review.status]
    if review.status == "approved":
        late = "it was approved, but not claimed in time, so the approval has lapsed"
        changed = "its facts changed before it was claimed, so the approval is void; people are asked again"
        reason = changed if review.raw.get("voided") else late
    error = CollaborationError(cause, request_id=review.id, reason=reason, reviewer=review.reviewer)
    log.info("CollaborationError: %s", error)
    return error


def earlier_outcome(review: Review) -> AttemptOutcome | None:
    """Return how the action ended before a restart; None: it may start. Raises AlreadyClaimed: running or in doubt."""
    attempt = review.raw["execution"]
    if attempt is None or attempt["settled_as"] == "retry" or review.outcome is not None:
        return review.outcome
    words = f"{review.action} has already begun, and its outcome is not known yet (request {review.id})"
    raise AlreadyClaimed(409, "claimed", words)

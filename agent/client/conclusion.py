"""What a decided request means to the program that asked: it may go ahead, or an error says why not."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal

from agent.client.values import Decision, Ending, Review
from signoff.errors import AlreadyClaimed, CollaborationError

log = logging.getLogger("signoff.client")

_CAUSES: dict[str, Literal["rejected", "expired", "withdrawn"]] = {
    "rejected": "rejected",
    "expired": "expired",
    "approved": "expired",
    "cancelled": "withdrawn",
}


def concluded(review: Review, arguments: Mapping[str, Any] | None = None) -> Decision:
    """An approval as a decision; everything else, silence too, as an error: nothing but an approval is consent.

    ``arguments`` are those that were asked about, in full; without them a decision's are those of the review, in which
    secrets are masked. Raises CollaborationError (logged before), and TimeoutError while nobody has decided.
    """
    if review.status == "waiting":
        raise TimeoutError(f"nobody has decided yet (request {review.id})")
    if review.status == "approved" and not review.lapsed:
        return Decision(
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
        )
    reason, cause = review.reason, _CAUSES[review.status]
    if review.status == "approved":
        reason = "it was approved, but not begun in time, so the approval has lapsed"
    error = CollaborationError(cause, request_id=review.id, reason=reason, reviewer=review.reviewer)
    log.error("CollaborationError: %s", error)
    raise error


def ended(review: Review) -> Ending | None:
    """What became of an approved request in an earlier life of the program; None if it may be begun now.

    Raises AlreadyClaimed while nobody knows: it is under way, or in doubt.
    """
    attempt = review.raw["execution"]
    if attempt is None or attempt["settled_as"] == "retry" or review.ending is not None:
        return review.ending
    words = f"{review.action} was begun before, and nobody knows yet what became of it (request {review.id})"
    raise AlreadyClaimed(409, "claimed", words)

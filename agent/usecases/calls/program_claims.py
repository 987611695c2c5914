"""What programs need to execute calls: tokens, and words for refusals. Without a report the action is in doubt."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from agent.database.pools import Database
from agent.domain.coverage import Gap, Uncovered
from agent.domain.pause import PAUSED
from agent.domain.request import RequestStatus
from agent.store import call_locks, calls, executions
from agent.store.approvals import ProgramApproval
from agent.store.executions import ProgramAttempt
from agent.usecases.calls.attempts import Claim
from agent.usecases.calls.claims import decided_action
from signoff.errors import Conflict
from signoff.values import Action

LEASE_SECONDS = 3600.0
"""Seconds of a program's silence, unless its claim says otherwise."""

LONGEST_LEASE = 86_400.0

LAPSED = "the approval was not claimed in time and has lapsed"

TokenOf = Callable[[UUID], str]
"""Only the token's hash is stored."""

FACTS_CHANGED = "facts-changed"
"""After this refusal people are asked again. Also if policy became stricter: programs know this word."""


class ClaimRefused(Conflict):
    """``kind`` is machine-readable."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind = kind


class ReportRefused(Conflict):
    """The result is not the outcome; ``kind`` is machine-readable."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind = kind


def random_token(execution_id: UUID) -> str:  # noqa: ARG001
    """Return a new secret token for a program's claim; the execution does not matter."""
    return secrets.token_urlsafe(32)


def hash_of(token: str) -> bytes:
    """Return the SHA-256 of a claim's token, the only form in which it is stored."""
    return hashlib.sha256(token.encode()).digest()


@dataclass(frozen=True, slots=True)
class ProgramClaim:
    """The right to execute exactly ``action``, once. Only the hash of ``token`` is stored."""

    call_id: UUID
    execution_id: UUID
    request_id: UUID | None
    attempt: int
    action: Action
    token: str
    lease_seconds: float
    revision: int = 1
    edited: bool = False
    """By a reviewer, of this question or of the void one that it asks again."""

    @property
    def idempotency_key(self) -> str:
        return str(self.call_id)

    @classmethod
    def of(cls, claim: Claim, token: str, lease_seconds: float) -> ProgramClaim:
        return cls(
            claim.call_id,
            claim.execution_id,
            claim.request_id,
            claim.attempt,
            claim.action,
            token,
            lease_seconds,
        )


async def find_open_claim(db: Database, call_id: UUID, token_of: TokenOf) -> Claim | None:
    """The open attempt, if the token is its own and its action is the decided one. Raises ``ClaimRefused``."""
    async with db.connection() as connection:
        call = await call_locks.find(connection, call_id)
        found = await executions.find_leased(connection, call_id)
    action = decided_action(call) if call else None
    if call is None or found is None or action is None:
        return None
    if hash_of(token_of(found.execution_id)) != found.claim_hash:
        return None
    if call.paused:
        raise ClaimRefused("paused", PAUSED)
    return Claim(
        found.execution_id,
        call.id,
        call.run_id,
        found.attempt,
        action,
        call.request_id,
        found.worker,
        found.read_only,
    )


async def find_attempt(db: Database, call_id: UUID, token: str) -> ProgramAttempt | None:
    """Return the attempt at a call that a program claimed with this token, or None."""
    return await db.read(executions.find_by_token, call_id, hash_of(token))


async def hand_over_together(
    db: Database,
    request_ids: Sequence[UUID],
    *,
    wait: bool,  # noqa: ARG001
) -> list[datetime | None]:
    """Returns when each approval was first read; ``None``: not claimable."""
    async with db.transaction() as tx:
        handed_over = await calls.hand_over(tx, request_ids)
    return [handed_over.get(each) for each in request_ids]


def claimable_action(found: ProgramApproval, digest: bytes | None) -> Action:
    """Of an approval that is not void; ``digest``: of the action that the program expects. Raises ``ClaimRefused``."""
    if found.status is RequestStatus.WAITING:
        raise ClaimRefused("not-approved", "the request is still waiting")
    if found.status is not RequestStatus.APPROVED:
        raise ClaimRefused("not-approved", f"the request is {found.status.word}, not approved")
    if found.attempts and found.settled_as != "retry":
        raise ClaimRefused("claimed", "the approval was already claimed")
    if found.lapsed or found.erased or found.action is None:
        raise ClaimRefused("lapsed", LAPSED)
    if found.paused:
        raise ClaimRefused("paused", PAUSED)
    if digest is not None and digest != found.digest_decided:
        raise ClaimRefused(
            "other-digest", "the approved action is a different one; a reviewer may have changed it"
        )
    return Action.from_canonical(found.action)


def refused(missing: Uncovered) -> ClaimRefused:
    """Return the error for a claim that the approval does not cover, with a kind that programs can read."""
    match missing.gap:
        case Gap.FACTS_NEEDED:
            words = (
                "the claim must include the current `facts`: the facts that people saw are too old or missing"
            )
            return ClaimRefused("facts-needed", words)
        case Gap.FACTS_CHANGED:
            return ClaimRefused(FACTS_CHANGED, "its facts have changed since people approved it")
        case Gap.STRICTER:
            return ClaimRefused(FACTS_CHANGED, "policy is stricter than when people approved it")
        case Gap.LAPSED:
            return ClaimRefused("lapsed", LAPSED)
        case Gap.DENIED:
            return ClaimRefused("denied", missing.because)
        case Gap.ALTERED | Gap.OTHER_CODE:
            return ClaimRefused("altered", missing.because)

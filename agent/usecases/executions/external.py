"""The use cases of programs that ask and act outside of this house: take back, claim what was approved, report.

At most once, as for calls of our own: who claims an approval has it alone, and one who falls silent leaves it in
doubt, for a person to settle.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy import Row

from agent import tracing
from agent.database.pools import Database
from agent.database.transaction import Connection, Transaction
from agent.domain.api_keys import Principal
from agent.domain.audit import AuditKind, request_subject
from agent.domain.errors import NotFound
from agent.domain.request import ExecutionStatus, RequestStatus
from agent.fault_points import point
from agent.store import audit, executions, external_executions, outbox
from agent.store.audit import AuditEntry, ChainHead
from agent.store.external_executions import OverdueApproval
from agent.store.ids import new_id
from agent.store.outbox import Destination
from agent.usecases import requests
from agent.usecases.batches import TRANSIENT_DB_ERRORS, FailedItems, isolate_failures
from agent.usecases.executions import Outcome
from signoff.errors import Conflict
from signoff.values import Action

LEASE_SECONDS = 3600.0
"""How long an executor may be silent, unless its claim says otherwise."""

LONGEST_LEASE = 86_400.0


class ClaimRefused(Conflict):
    """An approval that cannot be claimed; ``kind`` says why, for programs."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind = kind


class ReportRefused(Conflict):
    """A result that was not taken as the outcome; ``kind`` says why, for programs."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class ExternalClaim:
    """The right to do it once: exactly ``action``. ``token`` goes with the report, and is not kept here."""

    execution_id: UUID
    request_id: UUID
    attempt: int
    action: Action
    revision: int
    edited: bool
    token: str
    lease_seconds: float

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this request."""
        return str(self.request_id)


async def record_in_key_chain(
    db: Database, principal: Principal, kind: AuditKind, detail: Mapping[str, Any]
) -> None:
    """Record what a key did that no request tells of, in the chain of the key."""
    subject = principal.name
    async with db.transaction() as tx:
        await audit.create_head(tx, subject)
        head = (await audit.lock_heads(tx, [subject]))[subject]
        audit.append(tx, head, AuditEntry(kind, principal.name, detail))


async def withdraw(db: Database, request_id: UUID, principal: Principal) -> bool:
    """The program takes its question back. False when it was decided already. Raises ``NotFound``."""
    words = f"taken back by the program that asked ({principal.name})"
    return await requests.withdraw(db, request_id, None, words, principal=principal.name)


async def claim(
    db: Database,
    request_id: UUID,
    principal: Principal,
    *,
    digest: bytes | None = None,
    lease_seconds: float = LEASE_SECONDS,
) -> ExternalClaim:
    """Take what was approved, once, to do it outside.

    ``digest`` is that of the action which the executor believes in, if it says so. Whether it is claimable is judged
    behind the request's lock, by the database's clock. Raises ``NotFound`` (nothing that this principal opened) and
    ``ClaimRefused``.
    """
    token = secrets.token_urlsafe(32)
    with tracing.span_within("claim", request_id, request_id, {"request_id": str(request_id)}) as span:
        claimed = await _claim(db, request_id, principal, digest, lease_seconds, token)
        span.set(execution_id=str(claimed.execution_id), attempt=claimed.attempt)
    point("after_claim")
    return claimed


async def _claim(
    db: Database,
    request_id: UUID,
    principal: Principal,
    digest: bytes | None,
    lease_seconds: float,
    token: str,
) -> ExternalClaim:
    async with db.transaction() as tx:
        found = await external_executions.lock_approval(tx, request_id)
        if found is None or found.principal != principal.name or found.call_id is not None:
            raise NotFound("there is no such request")
        _claimable(found, digest)
        action = Action.from_canonical(bytes(found.action))
        if not action.digest == found.digest == found.recorded_digest:
            raise ClaimRefused("altered", "what is stored is not what was approved")
        execution_id, attempt = new_id(), found.attempts + 1
        external_executions.insert(
            tx,
            execution_id,
            request_id=request_id,
            attempt=attempt,
            digest=action.digest,
            principal=principal.name,
            claim_hash=_hash(token),
            lease_seconds=lease_seconds,
        )
        detail = {"execution": str(execution_id), "attempt": attempt, "digest": action.digest.hex()}
        head = await _head(tx, request_id)
        audit.append(tx, head, AuditEntry(AuditKind.EXECUTION_CLAIMED, principal.name, detail))
        outbox.enqueue(tx, [outbox.card(Destination(found.team_id, found.channel_id), request_id)])
    return ExternalClaim(
        execution_id, request_id, attempt, action, found.revision, found.edited, token, lease_seconds
    )


def _claimable(found: Row[Any], digest: bytes | None) -> None:
    """Raises NotClaimed for what nobody may begin now, or no more."""
    if found.status == RequestStatus.WAITING.value:
        raise ClaimRefused("not-approved", "the request is still waiting")
    if found.status != RequestStatus.APPROVED.value:
        raise ClaimRefused("not-approved", f"the request is {found.status}, not approved")
    if found.execution_id is not None and found.settled_as != "retry":
        raise ClaimRefused("claimed", "the approval was claimed already")
    if found.lapsed or found.erased_at is not None:
        raise ClaimRefused("lapsed", "the approval was not claimed in time and has lapsed")
    if found.paused:
        raise ClaimRefused("paused", "the agent is paused: nothing of it may begin until it is resumed")
    if digest is not None and digest != bytes(found.digest):
        raise ClaimRefused(
            "other-digest", "what was approved is another action; a reviewer may have changed it"
        )


async def report(db: Database, request_id: UUID, principal: Principal, token: str, outcome: Outcome) -> None:
    """Write how a claimed attempt ended. The same report again is one.

    Raises ``NotFound`` and ``ReportRefused``: a wrong token, another outcome, or too late, in which case the report is
    kept beside what stands and overwrites nothing.
    """
    about = {"request_id": str(request_id), "status": outcome.status.value}
    with tracing.span_within("report", request_id, request_id, about):
        await _report(db, request_id, principal, token, outcome)


async def _report(db: Database, request_id: UUID, principal: Principal, token: str, outcome: Outcome) -> None:
    async with db.transaction() as tx:
        execution_id = await external_executions.find_by_token(tx, request_id, _hash(token))
        attempt = await external_executions.lock_attempt(tx, execution_id) if execution_id else None
        if attempt is None or attempt.principal != principal.name:
            raise ReportRefused("wrong-token", "this is not the token of a claim of this request")
        if attempt.status == outcome.status.value and outcome.text == (attempt.result or attempt.error or ""):
            return
        if attempt.status in (ExecutionStatus.SUCCEEDED.value, ExecutionStatus.FAILED.value):
            raise ReportRefused("reported", "another result was reported already, and stands")
        head = await _head(tx, request_id)
        on_time = bool(attempt.status == ExecutionStatus.CLAIMED.value)
        if on_time:
            _finish(tx, attempt, outcome, head, principal.name)
        elif attempt.late_result is None:
            _record_late(tx, attempt, outcome, head, principal.name)
    point("after_result")
    if not on_time:
        raise ReportRefused("late", "the claim had run out: the result is recorded, and a person settles it")


_KINDS = {
    ExecutionStatus.SUCCEEDED: AuditKind.EXECUTION_SUCCEEDED,
    ExecutionStatus.FAILED: AuditKind.EXECUTION_FAILED,
    ExecutionStatus.IN_DOUBT: AuditKind.EXECUTION_IN_DOUBT,
}


def _finish(tx: Transaction, attempt: Row[Any], outcome: Outcome, head: ChainHead, actor: str) -> None:
    tx.after_commit(partial(tracing.note_end, "attempt", attempt.request_id))
    executions.finish(tx, attempt.id, outcome.status, outcome.text)
    detail = {"execution": str(attempt.id), "attempt": attempt.attempt}
    audit.append(tx, head, AuditEntry(_KINDS[outcome.status], actor, detail))
    facts: dict[str, Any] = {"seconds": outcome.seconds or attempt.seconds}
    if outcome.status is not ExecutionStatus.SUCCEEDED:
        facts["text"] = outcome.text[:500]
    destination = Destination(attempt.team_id, attempt.channel_id)
    line = outbox.request_line(destination, attempt.request_id, outcome.status.value, **facts)
    outbox.enqueue(tx, [outbox.card(destination, attempt.request_id), line])


def _record_late(tx: Transaction, attempt: Row[Any], outcome: Outcome, head: ChainHead, actor: str) -> None:
    executions.record_late(tx, attempt.id, f"{outcome.status.value}: {outcome.text}")
    detail = {"execution": str(attempt.id), "status": outcome.status.value}
    audit.append(tx, head, AuditEntry(AuditKind.EXECUTION_LATE_RESULT, actor, detail))
    destination = Destination(attempt.team_id, attempt.channel_id)
    line = outbox.request_line(destination, attempt.request_id, "late_result", text=outcome.status.value)
    outbox.enqueue(tx, [line])


async def rescue(db: Database, *, batch_size: int = 200) -> int:
    """Claims whose executor has been silent for longer than its lease: in doubt, for a person to settle."""
    async with db.connection() as connection:
        silent = await external_executions.silent_claims(connection, batch_size, _BROKEN.ids)
    rescued = 0
    for execution_id in silent:
        try:
            rescued += await _rescue_one(db, execution_id)
        except TRANSIENT_DB_ERRORS:
            raise
        except Exception as error:
            _BROKEN.note(execution_id, error)
    return rescued


_BROKEN = FailedItems("rescue_outside")


async def _rescue_one(db: Database, execution_id: UUID) -> bool:
    async with db.transaction() as tx:
        attempt = await external_executions.lock_attempt(tx, execution_id)
        if attempt is None or attempt.status != ExecutionStatus.CLAIMED.value or not attempt.lease_over:
            return False
        words = f"{attempt.worker} has claimed it and not been heard of since (attempt {attempt.attempt})"
        head = await _head(tx, attempt.request_id)
        _finish(tx, attempt, Outcome(ExecutionStatus.IN_DOUBT, words), head, audit.SYSTEM)
    return True


async def lapse_due(db: Database, *, batch_size: int = 200) -> int:
    """Approvals that nobody has claimed within their `execute_within`. Returns how many have lapsed."""
    return await isolate_failures(
        db,
        external_executions.overdue_approvals,
        external_executions.overdue_approval,
        _lapse,
        size=batch_size,
        broken=_BROKEN_LAPSES,
    )


_BROKEN_LAPSES = FailedItems("lapse")


async def _lapse(tx: Transaction, due: Sequence[OverdueApproval]) -> None:
    external_executions.lapse(tx, [row.id for row in due])
    heads = await audit.lock_heads(tx, [request_subject(row.id) for row in due])
    entry = AuditEntry(AuditKind.APPROVAL_LAPSED, audit.SYSTEM, {})
    audit.append_all(tx, [(heads[request_subject(row.id)], entry) for row in due])
    for row in due:
        outbox.enqueue(
            tx, [outbox.card(row.destination, row.id), outbox.request_line(row.destination, row.id, "lapsed")]
        )


async def _head(connection: Connection, request_id: UUID) -> ChainHead:
    subject = request_subject(request_id)
    return (await audit.lock_heads(connection, [subject]))[subject]


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()

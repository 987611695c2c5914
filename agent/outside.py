"""The use cases of programs that ask and act outside of this house: take back, claim what was approved, report.

At most once, as for calls of our own: who claims an approval has it alone, and one who falls silent leaves it in
doubt, for a person to settle.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from agent import approvals, tracing
from agent.batches import AWAY, Broken, in_batches
from agent.domain.audit import AuditKind, request_subject
from agent.domain.errors import NotFound
from agent.domain.keys import Principal
from agent.domain.request import ExecutionStatus, RequestStatus
from agent.executions import Outcome
from agent.faults import point
from agent.store import chain, claims, outbox
from agent.store.batch import Batch
from agent.store.chain import ChainHead, Entry
from agent.store.database import Database
from agent.store.ids import new_id
from agent.store.outbox import Outlet
from agent.store.writes import executions
from signoff.errors import Conflict
from signoff.values import Action

LEASE_SECONDS = 3600.0
"""How long an executor may be silent, unless its claim says otherwise."""

LONGEST_LEASE = 86_400.0


class NotClaimed(Conflict):
    """An approval that cannot be claimed; ``kind`` says why, for programs."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind = kind


class NotReported(Conflict):
    """A result that was not taken as the outcome; ``kind`` says why, for programs."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Claimed:
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


async def note(db: Database, principal: Principal, kind: AuditKind, detail: Mapping[str, Any]) -> None:
    """Record what a key did that no request tells of, in the chain of the key."""
    subject = principal.name
    async with db.transaction() as connection:
        await chain.found(connection, subject)
        head = (await chain.lock_heads(connection, [subject]))[subject]
        batch = Batch()
        chain.append(batch, head, Entry(kind, principal.name, detail))
        await batch.send(connection)


async def withdraw(db: Database, request_id: UUID, principal: Principal) -> bool:
    """The program takes its question back. False when it was decided already. Raises ``NotFound``."""
    words = f"taken back by the program that asked ({principal.name})"
    return await approvals.withdraw(db, request_id, None, words, principal=principal.name)


async def claim(
    db: Database,
    request_id: UUID,
    principal: Principal,
    *,
    digest: bytes | None = None,
    lease_seconds: float = LEASE_SECONDS,
) -> Claimed:
    """Take what was approved, once, to do it outside.

    ``digest`` is that of the action which the executor believes in, if it says so. Whether it is claimable is judged
    behind the request's lock, by the database's clock. Raises ``NotFound`` (nothing that this principal opened) and
    ``NotClaimed``.
    """
    token = secrets.token_urlsafe(32)
    with tracing.doing("claim", request_id, request_id, {"request_id": str(request_id)}) as span:
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
) -> Claimed:
    async with db.transaction() as connection:
        found = await claims.approval(connection, request_id)
        if found is None or found.principal != principal.name or found.call_id is not None:
            raise NotFound("there is no such request")
        _claimable(found, digest)
        action = Action.from_canonical(bytes(found.action))
        if action.digest != bytes(found.digest):
            raise NotClaimed("altered", "what is stored is not what was approved")
        execution_id, attempt = new_id(), found.attempts + 1
        batch = Batch()
        claims.begin(
            batch,
            execution_id,
            request_id=request_id,
            attempt=attempt,
            digest=action.digest,
            principal=principal.name,
            claim_hash=_hash(token),
            lease_seconds=lease_seconds,
        )
        detail = {"execution": str(execution_id), "attempt": attempt, "digest": action.digest.hex()}
        head = await _head(connection, request_id)
        chain.append(batch, head, Entry(AuditKind.EXECUTION_CLAIMED, principal.name, detail))
        outbox.tell(batch, [outbox.card(Outlet(found.team_id, found.channel_id), request_id)])
        await batch.send(connection)
    return Claimed(
        execution_id, request_id, attempt, action, found.revision, found.edited, token, lease_seconds
    )


def _claimable(found: Row[Any], digest: bytes | None) -> None:
    """Raises NotClaimed for what nobody may begin now, or no more."""
    if found.status == RequestStatus.WAITING.value:
        raise NotClaimed("not-approved", "the request is still waiting")
    if found.status != RequestStatus.APPROVED.value:
        raise NotClaimed("not-approved", f"the request is {found.status}, not approved")
    if found.execution_id is not None and found.settled_as != "retry":
        raise NotClaimed("claimed", "the approval was claimed already")
    if found.lapsed or found.erased_at is not None:
        raise NotClaimed("lapsed", "the approval was not claimed in time and has lapsed")
    if found.paused:
        raise NotClaimed("paused", "the agent is paused: nothing of it may begin until it is resumed")
    if digest is not None and digest != bytes(found.digest):
        raise NotClaimed(
            "other-digest", "what was approved is another action; a reviewer may have changed it"
        )


async def report(db: Database, request_id: UUID, principal: Principal, token: str, outcome: Outcome) -> None:
    """Write how a claimed attempt ended. The same report again is one.

    Raises ``NotFound`` and ``NotReported``: a wrong token, another outcome, or too late, in which case the report is
    kept beside what stands and overwrites nothing.
    """
    about = {"request_id": str(request_id), "status": outcome.status.value}
    with tracing.doing("report", request_id, request_id, about):
        await _report(db, request_id, principal, token, outcome)


async def _report(db: Database, request_id: UUID, principal: Principal, token: str, outcome: Outcome) -> None:
    async with db.transaction() as connection:
        execution_id = await claims.claimed_with(connection, request_id, _hash(token))
        attempt = await claims.attempt(connection, execution_id) if execution_id else None
        if attempt is None or attempt.principal != principal.name:
            raise NotReported("wrong-token", "this is not the token of a claim of this request")
        if attempt.status == outcome.status.value and outcome.text == (attempt.result or attempt.error or ""):
            return
        if attempt.status in (ExecutionStatus.SUCCEEDED.value, ExecutionStatus.FAILED.value):
            raise NotReported("reported", "another result was reported already, and stands")
        batch = Batch()
        head = await _head(connection, request_id)
        on_time = bool(attempt.status == ExecutionStatus.CLAIMED.value)
        if on_time:
            _finish(batch, attempt, outcome, head, principal.name)
        elif attempt.late_result is None:
            _record_late(batch, attempt, outcome, head, principal.name)
        await batch.send(connection)
    point("after_result")
    if not on_time:
        raise NotReported("late", "the claim had run out: the result is recorded, and a person settles it")


_KINDS = {
    ExecutionStatus.SUCCEEDED: AuditKind.EXECUTION_SUCCEEDED,
    ExecutionStatus.FAILED: AuditKind.EXECUTION_FAILED,
    ExecutionStatus.IN_DOUBT: AuditKind.EXECUTION_IN_DOUBT,
}


def _finish(batch: Batch, attempt: Row[Any], outcome: Outcome, head: ChainHead, actor: str) -> None:
    tracing.ended("attempt", attempt.request_id)
    executions.finish(batch, attempt.id, outcome.status, outcome.text)
    detail = {"execution": str(attempt.id), "attempt": attempt.attempt}
    chain.append(batch, head, Entry(_KINDS[outcome.status], actor, detail))
    facts: dict[str, Any] = {"seconds": outcome.seconds or attempt.seconds}
    if outcome.status is not ExecutionStatus.SUCCEEDED:
        facts["text"] = outcome.text[:500]
    outlet = Outlet(attempt.team_id, attempt.channel_id)
    line = outbox.request_line(outlet, attempt.request_id, outcome.status.value, **facts)
    outbox.tell(batch, [outbox.card(outlet, attempt.request_id), line])


def _record_late(batch: Batch, attempt: Row[Any], outcome: Outcome, head: ChainHead, actor: str) -> None:
    executions.record_late(batch, attempt.id, f"{outcome.status.value}: {outcome.text}")
    detail = {"execution": str(attempt.id), "status": outcome.status.value}
    chain.append(batch, head, Entry(AuditKind.EXECUTION_LATE_RESULT, actor, detail))
    outlet = Outlet(attempt.team_id, attempt.channel_id)
    line = outbox.request_line(outlet, attempt.request_id, "late_result", text=outcome.status.value)
    outbox.tell(batch, [line])


async def rescue(db: Database, *, batch_size: int = 200) -> int:
    """Claims whose executor has been silent for longer than its lease: in doubt, for a person to settle."""
    async with db.connection() as connection:
        silent = await claims.silent(connection, batch_size, _BROKEN.ids)
    rescued = 0
    for execution_id in silent:
        try:
            rescued += await _rescue_one(db, execution_id)
        except AWAY:
            raise
        except Exception as error:
            _BROKEN.note(execution_id, error)
    return rescued


_BROKEN = Broken("rescue_outside")


async def _rescue_one(db: Database, execution_id: UUID) -> bool:
    async with db.transaction() as connection:
        attempt = await claims.attempt(connection, execution_id)
        if attempt is None or attempt.status != ExecutionStatus.CLAIMED.value or not attempt.lease_over:
            return False
        words = f"{attempt.worker} has claimed it and not been heard of since (attempt {attempt.attempt})"
        batch = Batch()
        head = await _head(connection, attempt.request_id)
        _finish(batch, attempt, Outcome(ExecutionStatus.IN_DOUBT, words), head, chain.SYSTEM)
        await batch.send(connection)
    return True


async def lapse_due(db: Database, *, batch_size: int = 200) -> int:
    """Approvals that nobody has claimed within their `execute_within`. Returns how many have lapsed."""
    return await in_batches(
        db, claims.overdue, claims.overdue_one, _lapse, size=batch_size, broken=_BROKEN_LAPSES
    )


_BROKEN_LAPSES = Broken("lapse")


async def _lapse(connection: AsyncConnection, due: Sequence[Row[Any]]) -> None:
    batch = Batch()
    claims.lapse(batch, [row.id for row in due])
    heads = await chain.lock_heads(connection, [request_subject(row.id) for row in due])
    entry = Entry(AuditKind.APPROVAL_LAPSED, chain.SYSTEM, {})
    chain.append_all(batch, [(heads[request_subject(row.id)], entry) for row in due])
    for row in due:
        outlet = Outlet(row.team_id, row.channel_id)
        outbox.tell(batch, [outbox.card(outlet, row.id), outbox.request_line(outlet, row.id, "lapsed")])
    await batch.send(connection)


async def _head(connection: AsyncConnection, request_id: UUID) -> ChainHead:
    subject = request_subject(request_id)
    return (await chain.lock_heads(connection, [subject]))[subject]


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()

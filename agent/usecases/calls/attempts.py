"""How an attempt begins and ends, for workers and programs alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Protocol
from uuid import UUID

import structlog

from agent.database.transaction import Transaction
from agent.domain.audit import AuditKind
from agent.domain.judgement import Judgement
from agent.domain.limits import Use
from agent.domain.request import ExecutionStatus
from agent.domain.run import AnswerKind, CallAnswer, CallExecutor
from agent.metrics import EXECUTIONS
from agent.store import audit, executions, outbox
from agent.store.audit import AuditEntry, ChainHead
from agent.store.call_locks import StoredCall
from agent.store.concurrency import ConcurrencyLimit
from agent.store.executions import CallAttempt, NewExecution
from agent.store.ids import new_id
from agent.store.outbox import OutboxMessage
from signoff.description import bounded
from signoff.values import Action

log = structlog.get_logger(__name__)

LEASE_SECONDS = 10.0
"""Seconds without a heartbeat (sent every 2 s) after which an attempt or turn is lost."""

MAX_ERROR = 4_000
"""Characters of an error in a message."""

MAX_ATTEMPTS = 3
"""For a retryable call, before people look at it."""

_KINDS = {
    ExecutionStatus.SUCCEEDED: AuditKind.EXECUTION_SUCCEEDED,
    ExecutionStatus.FAILED: AuditKind.EXECUTION_FAILED,
    ExecutionStatus.IN_DOUBT: AuditKind.EXECUTION_IN_DOUBT,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """``text``: the result, or the reason."""

    status: ExecutionStatus
    text: str
    seconds: float = 0.0
    retry_after: float | None = None
    """Seconds, after a temporary failure."""
    kind: AnswerKind | None = None
    """Of the call's answer, if it says more than ``status``."""

    @property
    def answer(self) -> CallAnswer:
        succeeded = self.status is ExecutionStatus.SUCCEEDED
        return CallAnswer(self.kind or (AnswerKind.RESULT if succeeded else AnswerKind.ERROR), self.text)


@dataclass(frozen=True, slots=True)
class ClaimTerms:
    """Who claims a call, and what its tool says about lost attempts."""

    worker: str
    idempotent: bool
    read_only: bool = False
    execution_id: UUID = field(default_factory=new_id)
    concurrency: tuple[ConcurrencyLimit, ...] = ()
    """Limits across processes."""
    uses: tuple[Use, ...] = ()
    policy_epoch: int = 0
    lease_seconds: float = LEASE_SECONDS
    judgement: Judgement | None = None
    """Needs no person; recorded with the first attempt."""
    claim_hash: bytes | None = None
    """Of the token, if ``worker`` is a program."""

    @property
    def executor(self) -> CallExecutor:
        return CallExecutor.PROGRAM if self.claim_hash else CallExecutor.HERE

    @property
    def actor(self) -> str:
        return self.worker if self.claim_hash else f"worker:{self.worker}"


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to cause the effect once. ``action``: from the approved canonical bytes."""

    execution_id: UUID
    call_id: UUID
    run_id: UUID | None
    attempt: int
    action: Action
    request_id: UUID | None
    worker: str
    read_only: bool

    @property
    def idempotency_key(self) -> str:
        return str(self.call_id)


def undone(claim: Claim, why: str, seconds: float = 0.0) -> Outcome:
    """This attempt had no effect. An earlier one may have had it."""
    if claim.attempt == 1 or claim.read_only:
        return Outcome(ExecutionStatus.FAILED, why, seconds, kind=AnswerKind.NOTHING_DONE)
    return Outcome(ExecutionStatus.FAILED, f"this attempt did nothing: {why}", seconds)


class CallToRun(Protocol):
    """A locked call."""

    @property
    def id(self) -> UUID: ...
    @property
    def run_id(self) -> UUID | None: ...
    @property
    def request_id(self) -> UUID | None: ...
    @property
    def attempts(self) -> int: ...


def approved_action(
    canonical: bytes, decided: bytes | None, recorded: bytes | None, *, terms_stand: bool
) -> Action | None:
    """Compare the digest with the decided and the audited one: altered or invented rows never run.

    ``terms_stand``: the terms of consent are the audited ones, too.
    """
    action = Action.from_canonical(canonical)
    return action if terms_stand and action.digest == decided == recorded else None


def claimed_entry(call: CallToRun, action: Action, terms: ClaimTerms) -> AuditEntry:
    """Return the audit entry for the claim of a call: its next attempt, and the digest of its action."""
    detail = {"execution": str(terms.execution_id), "call": str(call.id), "attempt": call.attempts + 1}
    detail["digest"] = action.digest.hex()
    return AuditEntry(AuditKind.EXECUTION_CLAIMED, terms.actor, detail)


def begin(tx: Transaction, call: CallToRun, action: Action, terms: ClaimTerms, at: datetime) -> Claim:
    """The audit entry is ``claimed_entry``."""
    execution_id, attempt = terms.execution_id, call.attempts + 1
    new = NewExecution(
        id=execution_id,
        call_id=call.id,
        request_id=call.request_id,
        attempt=attempt,
        digest=action.digest,
        idempotent=terms.idempotent,
        read_only=terms.read_only,
        worker=terms.worker,
        lease_seconds=terms.lease_seconds,
        policy_epoch=terms.policy_epoch,
        claim_hash=terms.claim_hash,
        at=at,
    )
    executions.insert(tx, new)
    about = {"execution_id": execution_id, "call_id": call.id, "request_id": call.request_id}
    named = {name: str(each) for name, each in about.items() if each is not None}
    event = partial(log.info, "execution begins", action="execution.started", attempt=attempt, **named)
    tx.after_commit(event)
    return Claim(
        execution_id,
        call.id,
        call.run_id,
        attempt,
        action,
        call.request_id,
        terms.worker,
        terms.read_only,
    )


def finish(tx: Transaction, execution_id: UUID, status: ExecutionStatus, text: str, at: datetime) -> None:
    """Count and log after COMMIT."""
    executions.finish(tx, execution_id, status, text, at)
    tx.after_commit(EXECUTIONS.labels(status.value).inc)
    action = f"execution.{status.value}"
    tx.after_commit(
        partial(log.info, "execution has an outcome", action=action, execution_id=str(execution_id))
    )


def is_repeated(attempt: CallAttempt, outcome: Outcome) -> bool:
    """The answer to an earlier report was lost."""
    written = attempt.result if attempt.status is ExecutionStatus.SUCCEEDED else attempt.error
    return attempt.status is outcome.status and outcome.text == (written or "")


def ends_doubt(attempt: CallAttempt, outcome: Outcome) -> bool:
    """The attempt's own worker reports late that it succeeded."""
    return attempt.unsettled and outcome.status is ExecutionStatus.SUCCEEDED


def write_outcome(
    tx: Transaction, attempt: CallAttempt, outcome: Outcome, head: ChainHead, actor: str
) -> None:
    """Write how an attempt ended, with audit entry and Slack messages; the caller answers the call."""
    finish(tx, attempt.id, outcome.status, outcome.text, head.at)
    detail: dict[str, object] = {"execution": str(attempt.id), "attempt": attempt.attempt}
    text = None if outcome.status is ExecutionStatus.SUCCEEDED else bounded(outcome.text, MAX_ERROR)
    if outcome.kind is AnswerKind.NOTHING_DONE:
        detail["nothing_done"] = True
        said = line(attempt, "nothing_done", text=text)
    else:
        said = line(attempt, outcome.status.value, seconds=outcome.seconds, text=text)
    audit.append(tx, head, AuditEntry(_KINDS[outcome.status], actor, detail))
    outbox.enqueue(tx, [*card(attempt), *map(outbox.telling, said)])


def write_end_of_doubt(
    tx: Transaction, attempt: CallAttempt, outcome: Outcome, head: ChainHead, actor: str
) -> None:
    """Write the late success of an attempt that was in doubt and that nobody has settled."""
    executions.end_doubt(tx, attempt.id, outcome.text, head.at)
    tx.after_commit(EXECUTIONS.labels(outcome.status.value).inc)
    detail = {"execution": str(attempt.id), "attempt": attempt.attempt, "late": True}
    audit.append(tx, head, AuditEntry(AuditKind.EXECUTION_SUCCEEDED, actor, detail))
    said = line(attempt, "settled", text="succeeded")
    outbox.enqueue(tx, [*card(attempt), *map(outbox.telling, said)])


def write_late(tx: Transaction, attempt: CallAttempt, outcome: Outcome, head: ChainHead, actor: str) -> None:
    """Record an outcome that comes too late beside the one on record, and say so at the request's card."""
    executions.record_late(tx, attempt.id, f"{outcome.status.value}: {outcome.answer.told}")
    detail = {"execution": str(attempt.id), "status": outcome.status.value}
    audit.append(tx, head, AuditEntry(AuditKind.EXECUTION_LATE_RESULT, actor, detail))
    outbox.enqueue(tx, line(attempt, "late_result", text=outcome.status.value))


def card(about: StoredCall | CallAttempt) -> list[OutboxMessage]:
    """Return the message that redraws the request's card; none if nobody was asked or there is no channel."""
    if about.request_id is None or about.destination is None:
        return []
    return [outbox.card(about.destination, about.request_id)]


def line(about: StoredCall | CallAttempt, line: str, **facts: object) -> list[OutboxMessage]:
    """Return a message for the thread of the request's card; none if nobody was asked or without channel."""
    if about.request_id is None or about.destination is None:
        return []
    return [outbox.request_line(about.destination, about.request_id, line, None, **facts)]

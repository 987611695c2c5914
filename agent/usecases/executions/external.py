"""Claims and reports of external programs. Without a report the action is in doubt."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from uuid import UUID

from agent import tracing
from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.api_keys import Principal
from agent.domain.audit import AuditKind, request_subject
from agent.domain.coverage import Gap, Uncovered, WouldRun, uncovered
from agent.domain.errors import NotFound
from agent.domain.facts import Facts
from agent.domain.judgement import Judgement
from agent.domain.pause import PAUSED, check_not_paused
from agent.domain.policy import check_epoch
from agent.domain.request import ExecutionStatus, RequestStatus
from agent.fault_points import point
from agent.store import audit, external_executions, judgements, outbox, pause
from agent.store import policy as policies
from agent.store.audit import AuditEntry, ChainHead
from agent.store.executions import NewExecution
from agent.store.external_executions import ClaimableRequest, ExternalAttempt, OverdueApproval
from agent.store.ids import new_id
from agent.usecases import attempts, requests
from agent.usecases.attempts import Outcome
from agent.usecases.batches import FailedItems, isolate_failures
from signoff.errors import Conflict
from signoff.values import Action

LEASE_SECONDS = 3600.0
"""Seconds of an executor's silence, unless its claim says otherwise."""

LONGEST_LEASE = 86_400.0

LAPSED = "the approval was not claimed in time and has lapsed"

TokenOf = Callable[[UUID], str]
"""Only the token's hash is stored."""

JudgeAgain = Callable[[Action, Facts], Judgement]
"""What the policy in force says of an approved action and its present facts."""

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


def random_token(execution_id: UUID) -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True)
class ExternalClaim:
    """The right to execute exactly ``action``, once. Only the hash of ``token`` is stored."""

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
        return str(self.request_id)


async def record_judgement(
    db: Database,
    principal: Principal,
    kind: AuditKind,
    detail: Mapping[str, object],
    judged: Judgement,
    *,
    agent: str | None = None,
) -> None:
    """The key's audit chain records evaluations without a request.

    ``agent``: its action may begin once this returns. Raises ``OutdatedPolicy``, and then ``AgentPaused``.
    """
    subject = principal.name
    async with db.transaction() as tx:
        check_epoch(judged.epoch, await policies.lock_epoch(tx))
        if agent is not None:
            check_not_paused(await pause.active_pauses(tx), agent)
        await audit.create_head(tx, subject)
        await audit.record(tx, subject, kind, principal.name, {**detail, "policy": judged.epoch})
        judgements.insert(tx, judged, principal=subject)


async def withdraw(db: Database, request_id: UUID, principal: Principal) -> bool:
    """False: already decided. Raises ``NotFound``."""
    words = f"withdrawn by the program that asked ({principal.name})"
    return await requests.withdraw(db, request_id, None, words, principal=principal.name)


async def claim(
    db: Database,
    request_id: UUID,
    principal: Principal,
    token_of: TokenOf = random_token,
    *,
    digest: bytes | None = None,
    lease_seconds: float = LEASE_SECONDS,
    facts: Facts | None = None,
    facts_are_read: bool = False,
    policy_epoch: int = 0,
    judge: JudgeAgain | None = None,
) -> ExternalClaim:
    """Claim an approved action once, under the request's lock and by the database's clock.

    An open attempt is returned again if ``token_of`` gives its token: the first answer was lost. ``digest``: of the
    action that the executor expects. ``facts`` were sent or looked up for this claim; ``facts_are_read``: by a rule
    for this tool of the policy ``policy_epoch``, which ``judge`` applies to what was approved. Raises ``NotFound``,
    ``ClaimRefused`` and ``OutdatedPolicy``.
    """
    with tracing.span_within("claim", request_id, request_id, {"request_id": str(request_id)}) as span:
        claimed = await _claim(
            db,
            request_id,
            principal,
            token_of,
            digest,
            lease_seconds,
            facts,
            facts_are_read,
            policy_epoch,
            judge,
        )
        span.set(execution_id=str(claimed.execution_id), attempt=claimed.attempt)
    point("after_claim")
    return claimed


async def _claim(
    db: Database,
    request_id: UUID,
    principal: Principal,
    token_of: TokenOf,
    digest: bytes | None,
    lease_seconds: float,
    facts: Facts | None,
    facts_are_read: bool,
    policy_epoch: int,
    judge: JudgeAgain | None,
) -> ExternalClaim:
    async with db.transaction() as tx:
        found = await external_executions.lock_approval(tx, request_id)
        if found is None or found.principal != principal.name or found.call_id is not None:
            raise NotFound("there is no such request")
        if repeated := _open_claim(found, request_id, token_of, lease_seconds):
            if found.paused:
                raise ClaimRefused("paused", PAUSED)
            return repeated
        check_epoch(policy_epoch, found.policy_epoch)
        action = claimable_action(found, digest)
        _check_covered(found, action, facts, facts_are_read, judge)
        execution_id, attempt = new_id(), found.attempts + 1
        token = token_of(execution_id)
        new = NewExecution(
            execution_id,
            request_id,
            attempt,
            action.digest,
            principal.name,
            lease_seconds,
            policy_epoch,
            hash_of(token),
        )
        external_executions.insert(tx, new)
        detail = {"execution": str(execution_id), "attempt": attempt, "digest": action.digest.hex()}
        attempts.log_begun(tx, execution_id, attempt, request_id)
        head = await audit.lock_head(tx, request_subject(request_id))
        audit.append(tx, head, AuditEntry(AuditKind.EXECUTION_CLAIMED, principal.name, detail))
        outbox.enqueue(tx, [outbox.card(found.destination, request_id)])
    return ExternalClaim(
        execution_id, request_id, attempt, action, found.revision, found.has_editor, token, lease_seconds
    )


def _open_claim(
    found: ClaimableRequest, request_id: UUID, token_of: TokenOf, lease_seconds: float
) -> ExternalClaim | None:
    execution_id = found.open_execution
    if (
        execution_id is None
        or found.action is None
        or hash_of(token := token_of(execution_id)) != found.claim_hash
    ):
        return None
    action = attempts.approved_action(
        found.action, found.digest_decided, found.digest_recorded, terms_stand=found.terms_stand
    )
    if action is None:
        return None
    return ExternalClaim(
        execution_id,
        request_id,
        found.attempts,
        action,
        found.revision,
        found.has_editor,
        token,
        lease_seconds,
    )


async def hand_over_together(
    db: Database, request_ids: Sequence[UUID], *, wait: bool
) -> list[datetime | None]:
    """Returns when each approval was first read; ``None``: not claimable."""
    async with db.transaction() as tx:
        handed_over = await external_executions.hand_over(tx, request_ids)
    return [handed_over.get(each) for each in request_ids]


def claimable_action(found: ClaimableRequest, digest: bytes | None) -> Action:
    """Raises ``ClaimRefused``."""
    if found.status is RequestStatus.WAITING:
        raise ClaimRefused("not-approved", "the request is still waiting")
    if found.status is not RequestStatus.APPROVED:
        raise ClaimRefused("not-approved", f"the request is {found.status.word}, not approved")
    if found.voided:
        raise ClaimRefused(
            FACTS_CHANGED,
            "the approval is void, because facts or policy have changed; people are asked again",
        )
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


def _check_covered(
    found: ClaimableRequest, action: Action, facts: Facts | None, are_read: bool, judge: JudgeAgain | None
) -> None:
    """Raises ``ClaimRefused``."""
    known = found.facts_shown if facts is None or facts.failed else facts
    now = WouldRun(action, facts, judge(action, known) if judge else None, facts_are_read=are_read)
    if missing := uncovered(found, action, now):
        raise refused(missing)


def refused(missing: Uncovered) -> ClaimRefused:
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


async def report(db: Database, request_id: UUID, principal: Principal, token: str, outcome: Outcome) -> None:
    """Raises ``NotFound``, and ``ReportRefused`` if the result is only recorded beside the outcome."""
    about = {"request_id": str(request_id), "status": outcome.status.value}
    with tracing.span_within("report", request_id, request_id, about):
        await _report(db, request_id, principal, token, outcome)


async def _report(db: Database, request_id: UUID, principal: Principal, token: str, outcome: Outcome) -> None:
    async with db.transaction() as tx:
        execution_id = await external_executions.find_by_token(tx, request_id, hash_of(token))
        attempt = await external_executions.lock(tx, execution_id) if execution_id else None
        if attempt is None or attempt.worker != principal.name:
            raise ReportRefused("wrong-token", "this token does not belong to a claim of this request")
        if attempts.is_repeated(attempt, outcome):
            return
        if attempt.status in (ExecutionStatus.SUCCEEDED, ExecutionStatus.FAILED):
            raise ReportRefused("reported", "another result was already reported and remains valid")
        head = await audit.lock_head(tx, attempt.subject)
        on_time = attempt.status is ExecutionStatus.CLAIMED
        ends_doubt = attempts.ends_doubt(attempt, outcome)
        if on_time:
            timed = replace(outcome, seconds=outcome.seconds or attempt.seconds)
            write_outcome(tx, attempt, timed, head, principal.name)
        elif ends_doubt:
            attempts.write_end_of_doubt(tx, attempt, outcome, head, principal.name)
        elif attempt.late_result is None:
            attempts.write_late(tx, attempt, outcome, head, principal.name)
    point("after_result")
    if not on_time and not ends_doubt:
        raise ReportRefused("late", "the claim had expired: the result is recorded, and a person settles it")


def write_outcome(
    tx: Transaction, attempt: ExternalAttempt, outcome: Outcome, head: ChainHead, actor: str
) -> None:
    attempts.write_outcome(tx, attempt, outcome, head, actor)
    tx.after_commit(partial(tracing.note_end, "attempt", attempt.request_id))


async def lapse_due(db: Database, *, batch_size: int = 200) -> int:
    """End approvals not claimed within `execute_within`. One that was read is left in doubt."""
    overdue = external_executions.overdue_approvals
    return await isolate_failures(db, overdue, _lapse, size=batch_size, broken=_BROKEN_LAPSES)


_BROKEN_LAPSES = FailedItems("lapse")


async def _lapse(tx: Transaction, due: Sequence[OverdueApproval]) -> None:
    external_executions.lapse(tx, [row.id for row in due])
    heads = await audit.lock_heads(tx, [request_subject(row.id) for row in due])
    for row in due:
        read = row.handed_over_at.isoformat() if row.handed_over_at else None
        detail = {"handed_over": read} if read else {}
        audit.append(
            tx, heads[request_subject(row.id)], AuditEntry(AuditKind.APPROVAL_LAPSED, audit.SYSTEM, detail)
        )
        name = "handed_over" if read else "lapsed"
        line = outbox.request_line(row.destination, row.id, name, None, at=read)
        outbox.enqueue(tx, [outbox.card(row.destination, row.id), line])


def hash_of(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()

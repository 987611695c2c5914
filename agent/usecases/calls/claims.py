"""The attempt is written before its effect begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.audit import call_subject, request_subject
from agent.domain.errors import NoRoom, NotFound, OutdatedPolicy
from agent.domain.limits import Use
from agent.domain.policy import outdated
from agent.domain.request import ExecutionStatus, RequestStatus
from agent.domain.run import CallState
from agent.fault_points import point
from agent.store import audit, call_locks, calls, executions, judgements, limits, outbox, runs
from agent.store.audit import ChainHead
from agent.store.call_locks import ReadyCall, StoredCall
from agent.store.claimable_calls import ClaimableCall
from agent.usecases.calls import attempts
from agent.usecases.calls.attempts import LEASE_SECONDS, Claim, ClaimTerms, Outcome
from agent.usecases.waves import SKIPPED, JointUseCase, Settled, Skipped
from signoff.errors import SignoffError
from signoff.values import Action


@dataclass(frozen=True, slots=True)
class CallToClaim:
    """A ready call that a worker or program wants to begin, under the request that was judged, if any."""

    call_id: UUID
    run_id: UUID | None
    request_id: UUID | None
    terms: ClaimTerms

    @property
    def subject(self) -> str:
        return call_subject(self.run_id, self.request_id)

    @property
    def unapproved_uses(self) -> tuple[Use, ...]:
        """Only calls that nobody approved need room."""
        return self.terms.uses if self.request_id is None else ()


class ClaimCalls(JointUseCase[CallToClaim, ReadyCall, Claim | None]):
    """Take the one open attempt at each ready call, if its action is the decided one.

    ``None``: nothing to run, a pause, an ended run that does not need the call, or a limit over time without room for
    a call that nobody approved, which is evaluated again. ``NoRoom`` and ``OutdatedPolicy`` leave the call ready.
    Compares under the call's lock: also that it still waits under the request that was judged. After
    ``OutcomeUnknown``, ask ``find_claim``. Members are calls of different runs, or of programs.
    """

    async def lock(
        self, tx: Transaction, members: Sequence[CallToClaim], *, wait: bool
    ) -> list[ReadyCall | Skipped]:
        tx.after_commit(partial(point, "after_claim"))
        bounds = {bound for each in members for bound in each.terms.concurrency}
        locked = await call_locks.lock_ready(
            tx,
            [each.call_id for each in members],
            [each.run_id for each in members if each.run_id],
            [each.subject for each in members],
            bounds,
            [use for each in members for use in each.unapproved_uses],
            wait=wait,
        )
        return [locked.get(each.call_id, SKIPPED) for each in members]

    def missing(self, member: CallToClaim) -> None:  # noqa: ARG002
        return None

    async def act(
        self, tx: Transaction, member: CallToClaim, found: ReadyCall, *, wait: bool
    ) -> Settled[Claim | None]:
        if found.call.request_id != member.request_id:
            return None
        locked = found.room.holds(member.terms.concurrency) and found.limits.holds(member.unapproved_uses)
        if found.call.state is CallState.READY and not (found.head and locked) and not wait:
            return SKIPPED
        begun = await begin_attempt(tx, found, member.terms)
        return begun if begun is None or isinstance(begun, SignoffError) else begun[0]


@dataclass(frozen=True, slots=True)
class ApprovedCall:
    """A call that people approved just now; ``judge`` returns the terms of a claim, or None if it has to be looked up.

    ``judge`` is called behind the locks, once for each attempt at the transaction. It must be quick and not raise.
    """

    call_id: UUID
    run_id: UUID
    request_id: UUID
    judge: Callable[[ClaimableCall, Action], ClaimTerms | None]


@dataclass(frozen=True, slots=True)
class BegunCall:
    """A claim with the terms that it was made on."""

    claim: Claim
    terms: ClaimTerms


class ClaimApproved(JointUseCase[ApprovedCall, ReadyCall, BegunCall | None]):
    """Claim calls that people approved just now: one look at each, behind its locks.

    ``None``: it waits for a look, or no longer. After ``OutcomeUnknown``, ask ``find_claim``. Members are calls of
    different runs.
    """

    async def lock(
        self, tx: Transaction, members: Sequence[ApprovedCall], *, wait: bool
    ) -> list[ReadyCall | Skipped]:
        tx.after_commit(partial(point, "after_claim"))
        requests = [each.request_id for each in members]
        locked = await call_locks.lock_ready(
            tx,
            [each.call_id for each in members],
            [each.run_id for each in members],
            list(map(request_subject, requests)),
            approved=requests,
            wait=wait,
        )
        return [locked.get(each.call_id, SKIPPED) for each in members]

    def missing(self, member: ApprovedCall) -> None:  # noqa: ARG002
        return None

    async def act(
        self, tx: Transaction, member: ApprovedCall, found: ReadyCall, *, wait: bool
    ) -> Settled[BegunCall | None]:
        call, action = found.approved, decided_action(found.call)
        if (
            call is None
            or action is None
            or (call.request_id, call.run_id) != (member.request_id, member.run_id)
        ):
            return None
        if found.head is None and not wait:
            return SKIPPED
        if (terms := member.judge(call, action)) is None:
            return None
        begun = await begin_attempt(tx, found, terms)
        if begun is None or isinstance(begun, SignoffError):
            return None  # the look that follows says why
        return BegunCall(begun[0], terms)


async def find_claim(db: Database, run_id: UUID, call_id: UUID, execution_id: UUID) -> Claim | None:
    """An unconfirmed attempt, behind the run's lock. ``None``: given up. Raises ``NotFound``: not written."""
    async with db.transaction() as tx:
        await runs.lock(tx, run_id)
        call = await call_locks.lock(tx, call_id)
        attempt = await executions.lock(tx, execution_id)
        if attempt is None or call is None:
            raise NotFound(f"no execution {execution_id}")
        action = decided_action(call)
        if attempt.status is not ExecutionStatus.CLAIMED or action is None:
            if attempt.late_result is None:
                head = await audit.lock_head(tx, attempt.subject)
                attempts.write_late(tx, attempt, _NOT_STARTED, head, f"worker:{attempt.worker}")
            return None
        await executions.renew_leases(tx, [execution_id], attempt.worker, LEASE_SECONDS)
    return Claim(
        execution_id,
        call.id,
        call.run_id,
        attempt.attempt,
        action,
        call.request_id,
        attempt.worker,
        attempt.read_only,
    )


_NOT_STARTED = Outcome(ExecutionStatus.FAILED, "the tool was never called")


async def begin_attempt(
    tx: Transaction, found: ReadyCall, terms: ClaimTerms
) -> tuple[Claim, ChainHead] | OutdatedPolicy | NoRoom | None:
    """Write the attempt at a locked, ready call, unless something has come in between.

    Returns the claim and the new head of its audit chain. ``None``: the call does not begin; it may be
    stopped or judged again. ``OutdatedPolicy`` and ``NoRoom`` are returned, not raised, and leave it ready.
    """
    call = found.call
    if error := outdated(terms.policy_epoch, call.policy_epoch):
        return error
    if call.run_id is not None and call.parked:  # the run works again after its last decision
        runs.work_again(tx, call.run_id)
    if call.state is not CallState.READY or call.executor is not terms.executor or call.paused or call.lapsed:
        return None
    if (action := decided_action(call)) is None:
        return None
    if call.unneeded and not call.wanted_again:
        calls.stop(tx, call.id, call.agent)
        return None
    if call.request_id is None and not found.limits.has_room(call.id, terms.uses):
        calls.judge_again(tx, call.id, call.agent)
        return None
    if not found.room.take(terms.concurrency):
        return NoRoom(f"as many calls of {call.tool} run in all processes as may")
    found.limits.take(call.id, terms.uses)
    limits.reserve(tx, terms.uses, call.id)
    if terms.judgement is not None and not call.attempts:
        judgements.insert(tx, terms.judgement, call_id=call.id)
    head = found.head or await audit.lock_head(tx, call.subject)
    outbox.enqueue(tx, attempts.card(call))
    after = audit.append(tx, head, attempts.claimed_entry(call, action, terms))
    return attempts.begin(tx, call, action, terms, head.at), after


def decided_action(call: StoredCall) -> Action | None:
    """What people approved, if asked, and only while not void."""
    if call.ask_no == 0:
        return Action.from_canonical(call.action) if call.action and call.request_id is None else None
    if call.outcome is not RequestStatus.APPROVED or call.voided or call.decided_action is None:
        return None
    return attempts.approved_action(
        call.decided_action, call.decided_digest, call.recorded_digest, terms_stand=call.terms_stand
    )

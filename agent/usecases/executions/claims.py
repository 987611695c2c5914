"""Claiming a call that is ready: the attempt is written before its effect begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from agent.database.locks import SKIPPED, Skipped
from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.errors import NoRoom, NotFound
from agent.domain.request import ExecutionStatus, RequestStatus
from agent.domain.run import CallState
from agent.fault_points import point
from agent.store import audit, call_locks, calls, executions, outbox, runs
from agent.store.audit import ChainHead
from agent.store.call_locks import ReadyCall, StoredCall
from agent.store.ids import new_id
from agent.store.limits import Room
from agent.usecases import attempts
from agent.usecases.attempts import LEASE_SECONDS, Claim, ClaimTerms, Outcome
from signoff.values import Action


@dataclass(frozen=True, slots=True)
class CallToClaim:
    """A call of a run, and who would run it on which terms."""

    call_id: UUID
    run_id: UUID
    terms: ClaimTerms


async def claim(
    db: Database,
    call_id: UUID,
    *,
    worker: str,
    idempotent: bool,
    read_only: bool = False,
) -> Claim | None:
    """Take the one open attempt at a ready call, if what it would run is what was decided.

    ``None``: there is nothing to run (any more), its agent is paused, or its run has ended and nobody wanted the
    call. The comparison with the decision is made under the call's lock, which comes behind its run's. Raises
    ``OutcomeUnknown``, after which ``find_claim`` tells whether the attempt was written.
    """
    terms = ClaimTerms(worker, idempotent, read_only, new_id())
    async with db.transaction() as tx:
        begun = await begin_attempt(tx, call_id, terms)
        if begun is None:
            return None
        calls.claim(tx, call_id)
    point("after_claim")
    return begun[0]


async def claim_together(
    db: Database, asked: Sequence[CallToClaim], *, wait: bool
) -> list[Claim | NoRoom | Skipped | None]:
    """``claim`` for calls of different runs in one transaction; without ``wait`` it skips what others hold.

    A call stays ready when the limits among its terms leave no room.
    """
    bounds = {limit for each in asked for limit in each.terms.limits}
    async with db.transaction() as tx:
        locked, room = await call_locks.lock_ready(tx, [each.call_id for each in asked], bounds, wait=wait)
        claims = [await _claim(tx, locked.get(each.call_id), room, each, wait=wait) for each in asked]
    point("after_claim")
    return claims


async def _claim(
    tx: Transaction, found: ReadyCall | None, room: Room, asked: CallToClaim, *, wait: bool
) -> Claim | NoRoom | Skipped | None:
    if found is None:
        return None if wait else SKIPPED
    locked = found.head is not None and room.holds(asked.terms.limits)
    if found.call.state is CallState.READY and not locked and not wait:
        return SKIPPED
    tx.next_member()
    begun = await _begin(tx, found, asked.terms, room)
    if begun is None or isinstance(begun, NoRoom):
        return begun
    calls.claim(tx, asked.call_id)
    return begun[0]


async def find_claim(db: Database, run_id: UUID, call_id: UUID, execution_id: UUID) -> Claim | None:
    """The attempt of a ``claim`` whose COMMIT was not answered, with a new lease; ``None``: it was given up.

    It waits for the run's lock, which a transaction that is still about to commit holds. An attempt that was given up
    in the meantime cannot be used; the record says that it never began. Raises ``NotFound`` when none was written.
    """
    async with db.transaction() as tx:
        await runs.lock(tx, run_id)
        call = await call_locks.lock(tx, call_id)
        attempt = await executions.lock(tx, execution_id)
        if attempt is None or call is None:
            raise NotFound(f"no execution {execution_id}")
        action = _decided_action(call)
        if attempt.status is not ExecutionStatus.CLAIMED or action is None:
            if attempt.late_result is None:
                head = await audit.lock_head(tx, attempt.subject)
                attempts.write_late(tx, attempt, _NEVER_BEGAN, head, f"worker:{attempt.worker}")
            return None
        executions.renew_leases(tx, [execution_id], attempt.worker, LEASE_SECONDS)
    return Claim(execution_id, call.id, call.run_id, attempt.attempt, action, call.request_id, attempt.worker)


_NEVER_BEGAN = Outcome(ExecutionStatus.FAILED, "the tool was never called")


async def begin_attempt(tx: Transaction, call_id: UUID, terms: ClaimTerms) -> tuple[Claim, ChainHead] | None:
    """Write an attempt at a ready call. Returns it with the head of its audit chain."""
    locked, room = await call_locks.lock_ready(tx, [call_id], terms.limits, wait=True)
    begun = await _begin(tx, locked[call_id], terms, room) if call_id in locked else None
    if isinstance(begun, NoRoom):
        raise begun
    return begun


async def _begin(
    tx: Transaction, found: ReadyCall, terms: ClaimTerms, room: Room
) -> tuple[Claim, ChainHead] | NoRoom | None:
    call = found.call
    if call.parked:  # its run works again when its last waiting call was decided
        runs.work_again(tx, call.run_id)
    if call.state is not CallState.READY or call.paused or (action := _decided_action(call)) is None:
        return None
    if call.in_vain and not call.wanted_again:
        calls.stop(tx, call.id, call.agent)
        return None
    if not room.take(terms.limits):
        return NoRoom(f"as many calls of {call.tool} run in all processes as may")
    head = found.head or await audit.lock_head(tx, call.subject)
    outbox.enqueue(tx, attempts.card(call))
    after = audit.append(tx, head, attempts.claimed_entry(call, action, terms))
    return attempts.begin(tx, call, action, terms), after


def _decided_action(call: StoredCall) -> Action | None:
    """What may run: for a call that people were asked about exactly what they approved, if it is not void."""
    if call.ask_no == 0:
        return Action.from_canonical(call.action) if call.action and call.request_id is None else None
    if call.outcome is not RequestStatus.APPROVED or call.voided or call.decided_action is None:
        return None
    return attempts.approved_action(call.decided_action, call.decided_digest, call.recorded_digest)

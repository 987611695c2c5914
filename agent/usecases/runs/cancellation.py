"""A run is cancelled, with everything below it."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain import eligibility
from agent.domain.audit import DIRECT, AuditKind, run_subject
from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.people import Standing
from agent.domain.run import RunStatus
from agent.store import ancestors, audit, runs, views
from agent.usecases.runs import endings
from agent.usecases.runs.endings import LockedRuns, RunEnding
from signoff.values import Person


async def cancel(
    db: Database, run_id: UUID, by: Standing, channels: Collection[str] = (), *, path: str = DIRECT
) -> bool:
    """Cancel a run and its child runs: requests are withdrawn, nothing more begins.

    For the requester, and reviewers of a request that one of these runs waits for: by name or group (``by.roles``),
    or as a member of a review channel (``channels``), as resolved for ``views.cancel_context``. False: already ended.
    Raises ``NotFound`` and ``Refused`` (recorded).
    """
    async with db.transaction() as tx:
        outcome = await _cancel(tx, run_id, by, frozenset(channels), path)
    if isinstance(outcome, Refused):
        raise outcome
    return outcome


async def cancel_by_program(db: Database, run_id: UUID, principal: str) -> bool:
    """Only the program that started the run may cancel. Raises ``NotFound``."""
    async with db.transaction() as tx:
        run = await views.run_view(tx, run_id)
        if run is None or run.principal != principal:
            raise NotFound(f"no run {run_id}")
        locked = await _lock_with_descendants(tx, run_id)
        return await _end(tx, locked, actor=principal, text=f"by a program ({principal})")


async def cancel_by_operator(db: Database, run_id: UUID, actor: str, reason: str) -> bool:
    """Raises ``NotFound``."""
    async with db.transaction() as tx:
        locked = await _lock_with_descendants(tx, run_id)
        return await _end(tx, locked, actor=actor, text=reason)


async def end_orphans(db: Database) -> int:
    """Nobody waits for the answer of a child run whose parent has ended."""
    found = await db.read(ancestors.orphans)
    for run_id in found:
        async with db.transaction() as tx:
            locked = await _lock_with_descendants(tx, run_id)
            parent = locked.parent_of(locked.runs[-1])
            if parent is not None and parent.over:
                await _end(tx, locked, text="its parent run has ended")
    return len(found)


async def _cancel(
    tx: Transaction, run_id: UUID, by: Standing, channels: frozenset[str], path: str
) -> bool | Refused:
    locked = await _lock_with_descendants(tx, run_id)
    refusal = eligibility.cancel_refusal(locked.runs[-1].requester, locked.waiting, by, channels)
    if refusal is not None:
        await _refuse_cancel(tx, run_id, by, refusal, path)
        return Refused(refusal)
    facts = {"team": by.person.team_id, "user": by.person.user_id}
    return await _end(tx, locked, by.person, **facts)


async def _lock_with_descendants(tx: Transaction, run_id: UUID) -> LockedRuns:
    """The run is last, after its descendants."""
    below_first = await ancestors.run_with_descendants(tx, run_id)
    locked = [run for each in below_first if (run := await runs.lock(tx, each)) is not None]
    if not locked:
        raise NotFound(f"no run {run_id}")
    return await endings.lock(tx, locked)


async def _end(
    tx: Transaction,
    locked: LockedRuns,
    by: Person | None = None,
    *,
    actor: str | None = None,
    **facts: str | None,
) -> bool:
    working = [run for run in locked.runs if not run.over and not (run.done and not locked.waiting)]
    if working:
        how = RunEnding(RunStatus.CANCELLED, "cancelled", by, actor, facts=facts)
        await endings.end(tx, locked, working, how)
    return bool(working)


async def _refuse_cancel(tx: Transaction, run_id: UUID, by: Standing, refusal: Refusal, path: str) -> None:
    detail = {"refusal": refusal.value, "path": path}
    await audit.record(tx, run_subject(run_id), AuditKind.CANCEL_REFUSED, audit.actor(by.person), detail)

"""Stopping a run, and those that it started: who may, and what stops with it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Connection, Transaction
from agent.domain import eligibility
from agent.domain.audit import DIRECT, AuditKind, run_subject
from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.people import Standing
from agent.domain.run import RunStatus
from agent.store import ancestors, audit, open_requests, run_endings, runs, views
from agent.store.audit import AuditEntry
from agent.store.open_requests import OpenRequest
from signoff.values import Person


async def cancel(
    db: Database, run_id: UUID, by: Standing, channels: Collection[str] = (), *, path: str = DIRECT
) -> bool:
    """Stop a run and those that it started: nobody is asked any more, and nothing begins that has not begun.

    Its requester may, and whoever may decide a request that one of these runs waits for: by name or group
    (``by.roles``), or as a member of one of the review ``channels``; both as resolved for ``views.cancel_context``.
    ``path`` says by which door the wish came. False: it is over already. Raises ``NotFound`` and ``Refused``
    (recorded before).
    """
    async with db.transaction() as tx:
        outcome = await _cancel(tx, run_id, by, frozenset(channels), path)
    if isinstance(outcome, Refused):
        raise outcome
    return outcome


async def cancel_by_program(db: Database, run_id: UUID, principal: str) -> bool:
    """The same wish of the program that started the run. Raises ``NotFound``, also when another one did."""
    async with db.transaction() as tx:
        run = await views.run_view(tx, run_id)
        if run is None or run.principal != principal:
            raise NotFound(f"no run {run_id}")
        family, asked = await _family(tx, run_id)
        return await _end(tx, family, asked, None, actor=principal, text=f"by a program ({principal})")


async def cancel_by_operator(db: Database, run_id: UUID, actor: str, reason: str) -> bool:
    """The same wish of somebody at the service's own command line. Raises ``NotFound``."""
    async with db.transaction() as tx:
        family, asked = await _family(tx, run_id)
        return await _end(tx, family, asked, None, actor=actor, text=reason)


async def end_orphans(db: Database) -> int:
    """End the runs that work for a call whose own run has ended: nobody would hear their answer. Returns how many."""
    async with db.connection() as connection:
        found = await ancestors.orphans(connection)
    for run_id in found:
        async with db.transaction() as tx:
            family, asked = await _family(tx, run_id)
            above = await runs.lock(tx, family[-1].parent_run_id) if family[-1].parent_run_id else None
            if above is not None and above.over:
                await _end(tx, family, asked, None, text="the run above it has ended")
    return len(found)


async def _cancel(
    tx: Transaction, run_id: UUID, by: Standing, channels: frozenset[str], path: str
) -> bool | Refused:
    family, asked = await _family(tx, run_id)
    refusal = eligibility.cancel_refusal(family[-1].requester, asked, by, channels)
    if refusal is not None:
        await _refuse_cancel(tx, run_id, by, refusal, path)
        return Refused(refusal)
    facts = {"team": by.person.team_id, "user": by.person.user_id}
    return await _end(tx, family, asked, by.person, **facts)


async def _family(connection: Connection, run_id: UUID) -> tuple[list[runs.LockedRun], Sequence[OpenRequest]]:
    """The run, last, and those below it, all locked, with what they ask."""
    below_first = await ancestors.run_with_descendants(connection, run_id)
    family = [run for each in below_first if (run := await runs.lock(connection, each)) is not None]
    if not family:
        raise NotFound(f"no run {run_id}")
    return family, await open_requests.lock_waiting(connection, [run.id for run in family])


async def _end(
    tx: Transaction,
    family: Sequence[runs.LockedRun],
    asked: Sequence[OpenRequest],
    by: Person | None,
    **facts: Any,
) -> bool:
    working = [run for run in family if not run.over and not (run.done and not asked)]
    ending = {run.id for run in working}
    for run in working:
        with_above = run.parent_run_id in ending
        await run_endings.end_run(
            tx, run, RunStatus.CANCELLED, "cancelled", by, with_above=with_above, **facts
        )
    return bool(working)


async def _refuse_cancel(tx: Transaction, run_id: UUID, by: Standing, refusal: Refusal, path: str) -> None:
    detail: dict[str, Any] = {"refusal": refusal.value, "path": path}
    subject = run_subject(run_id)
    head = (await audit.lock_heads(tx, [subject]))[subject]
    audit.append(tx, head, AuditEntry(AuditKind.CANCEL_REFUSED, audit.actor(by.person), detail))

"""Resume a failed run where it stopped. Executed calls are in its transcript and not repeated."""

from __future__ import annotations

from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain import eligibility
from agent.domain.audit import DIRECT, AuditKind, run_subject
from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.people import Standing
from agent.domain.run import RunStatus, RunView
from agent.store import audit, outbox, runs, views
from agent.usecases.calls import call_answers
from signoff.errors import Conflict
from signoff.values import Person

GO_ON = "Please go on."
"""Counts as a person's message, so the run's limits start over."""


async def resume(
    db: Database,
    run_id: UUID,
    by: Standing,
    *,
    administrator: bool = False,
    thread: tuple[str, str] | None = None,
    path: str = DIRECT,
) -> None:
    """Fresh limits, for the requester or an ``administrator``. ``thread`` (channel, ``ts``): of the button.

    Raises ``NotFound``, ``Conflict`` (not failed, or transcript erased) and ``Refused`` (recorded).
    """
    async with db.transaction() as tx:
        run, seen = await _failed(tx, run_id)
        elsewhere = thread is not None and thread != (seen.channel_id, seen.thread_ts)
        refusal = eligibility.resume_refusal(seen.requester, by, administrator=administrator)
        refusal = Refusal.WRONG_PLACE if elsewhere else refusal
        if refusal is None:
            await _go_on(tx, run, by.person, audit.actor(by.person), path)
        else:
            detail = {"refusal": refusal.value, "path": path}
            await audit.record(
                tx, run_subject(run.id), AuditKind.RESUME_REFUSED, audit.actor(by.person), detail
            )
    if refusal is not None:
        raise Refused(refusal)


async def resume_by_operator(db: Database, run_id: UUID, actor: str) -> None:
    """Raises ``NotFound`` and ``Conflict``."""
    async with db.transaction() as tx:
        run, _ = await _failed(tx, run_id)
        await _go_on(tx, run, None, actor, "cli")


async def _failed(tx: Transaction, run_id: UUID) -> tuple[runs.LockedRun, RunView]:
    run = await runs.lock(tx, run_id)
    seen = await views.run_view(tx, run_id)
    if run is None or seen is None:
        raise NotFound(f"no run {run_id}")
    if run.status is not RunStatus.FAILED:
        raise Conflict(f"only a run that failed can be resumed; this one is {run.status.value}")
    if seen.erased_at is not None:
        raise Conflict("what this run did has been erased; start a new one")
    if run.parent_call_id is not None and await call_answers.lock_delegated(tx, run) is None:
        raise Conflict("the parent run already has this failure as its result; resume the parent run")
    return run, seen


async def _go_on(tx: Transaction, run: runs.LockedRun, by: Person | None, actor: str, path: str) -> None:
    runs.add_message(tx, run, "user", GO_ON, author=by)
    runs.reset_limits(tx, run.id)
    runs.reopen(tx, run.id, run.agent)
    if run.destination:
        facts = {"team": by.team_id, "user": by.user_id} if by else {"text": "by an operator"}
        line = outbox.run_line(run.destination, run.id, "resumed", **facts)
        outbox.enqueue(tx, [line, outbox.run_root(run.destination, run.id)])
    await audit.record(tx, run_subject(run.id), AuditKind.RUN_RESUMED, actor, {"path": path})

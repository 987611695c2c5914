"""Runs end, and with them their requests and calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import structlog

from agent import tracing
from agent.database.transaction import Transaction
from agent.domain.audit import AuditKind, request_subject, run_subject
from agent.domain.call_answers import EndedCall, answer_of_ended_run
from agent.domain.request import RequestStatus
from agent.domain.run import CallAnswer, RunStatus
from agent.store import audit, call_locks, calls, outbound, outbox, request_locks, runs
from agent.store.audit import AuditEntry, ChainHead
from agent.store.request_locks import OpenRequest
from agent.store.runs import LockedRun
from agent.usecases.calls import call_answers
from agent.usecases.requests.outcomes import RequestEnding, end_requests
from signoff.description import bounded
from signoff.values import Person

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RunEnding:
    """How a run ends: the status, the cause, and who ended it for which reason."""

    status: RunStatus
    cause: str
    by: Person | None = None
    actor: str | None = None
    """For the audit log, if not a person in Slack."""
    reason: str | None = None
    """A reviewer's words."""
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LockedRuns:
    """Each run precedes its parent; everything between runs and calls is locked."""

    runs: Sequence[LockedRun]
    by_id: Mapping[UUID, LockedRun]
    """With their parents."""
    waiting: Sequence[OpenRequest]

    def parent_of(self, run: LockedRun) -> LockedRun | None:
        return self.by_id.get(run.parent_run_id) if run.parent_run_id else None


async def lock(tx: Transaction, locked: Sequence[LockedRun]) -> LockedRuns:
    """Lock what follows in the lock order: other parents, and waiting requests."""
    by_id = {run.id: run for run in locked}
    for run in locked:
        if run.parent_run_id is not None and run.parent_run_id not in by_id:
            parent = await runs.lock(tx, run.parent_run_id)
            if parent is not None:
                by_id[parent.id] = parent
    waiting = await request_locks.lock_waiting(tx, [run.id for run in locked])
    return LockedRuns(locked, by_id, waiting)


async def lock_with_ancestors(tx: Transaction, run: LockedRun) -> LockedRuns:
    """Lock ancestors up to the first that has ended, and what follows."""
    line = [run]
    while (parent_id := line[-1].parent_run_id) is not None:
        parent = await runs.lock(tx, parent_id)
        if parent is None or parent.over:
            break
        line.append(parent)
    return await lock(tx, line)


async def end(
    tx: Transaction,
    locked: LockedRuns,
    ending_runs: Sequence[LockedRun],
    how: RunEnding,
    refused: tuple[EndedCall, CallAnswer] | None = None,
) -> None:
    """Withdraw requests, begin nothing more. Running attempts finish.

    Parents that go on get an answer. The caller or the sweep ends child runs outside ``ending_runs``. ``refused``:
    the answered call whose refusal ends the first run.
    """
    ids = [run.id for run in ending_runs]
    if refused is not None:
        await call_locks.lock(tx, refused[0].id)
    delegated = [await call_answers.lock_delegated(tx, run) for run in ending_runs]
    reason = "the run was cancelled" if how.status is RunStatus.CANCELLED else "the run has ended"
    stopped = await calls.stop_all(tx, ids, reason)
    waiting = [request for request in locked.waiting if request.run_id in ids]
    heads = await call_locks.lock_all_asked(tx, [request.id for request in waiting], *map(run_subject, ids))
    if refused is not None:
        call_answers.close(tx, ending_runs[0], *refused)
    for run, call in zip(ending_runs, delegated, strict=True):
        _answer_parent(tx, locked, ids, run, call, how)
    withdrawn = [
        RequestEnding(
            request,
            request.digest,
            RequestStatus.CANCELLED,
            heads[request_subject(request.id)],
            how.by,
            "the run has ended",
        )
        for request in waiting
    ]
    end_requests(tx, withdrawn)
    for each in stopped:
        name = "not_repeated" if each.attempted else "stopped"
        line = outbox.request_line(each.destination, each.id, name)
        outbox.enqueue(tx, [outbox.card(each.destination, each.id), line])
    for run in ending_runs:
        _end(tx, run, how, heads[run_subject(run.id)])


def _answer_parent(
    tx: Transaction,
    locked: LockedRuns,
    ending_ids: Sequence[UUID],
    run: LockedRun,
    call: EndedCall | None,
    how: RunEnding,
) -> None:
    parent = locked.parent_of(run)
    if call is None or parent is None:
        return
    given = answer_of_ended_run(run.agent, how.status, how.cause, how.reason)
    if parent.id in ending_ids:
        call_answers.close(tx, parent, call, given)
    else:
        call_answers.answer(tx, parent, call, given)


def _end(tx: Transaction, run: LockedRun, how: RunEnding, head: ChainHead) -> None:
    status = how.status.value
    runs.end(tx, run.id, how.status, how.cause)
    detail = {"status": status, "cause": bounded(how.cause, 200)}
    audit.append(tx, head, AuditEntry(AuditKind.RUN_ENDED, how.actor or audit.actor(how.by), detail))
    outbound.enqueue_finished(tx, run.id)
    tx.after_commit(partial(tracing.note_end, "run", run.id))
    tx.after_commit(partial(log.info, "run ended", action="run.ended", run_id=str(run.id), status=status))
    if run.destination:
        about = {"run": str(run.id)} if how.status is RunStatus.FAILED else {}
        line = outbox.run_line(run.destination, run.id, status, cause=how.cause, **about, **how.facts)
        # A child run's end is a step of the run above it; whoever cancels their own run knows.
        if run.parent_run_id is None and (how.by is None or how.by != run.requester):
            line = outbox.telling(line)
        outbox.enqueue(tx, [line, outbox.run_root(run.destination, run.id)])

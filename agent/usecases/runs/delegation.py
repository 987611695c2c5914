from __future__ import annotations

from uuid import UUID

from agent.database.pools import Database
from agent.domain.audit import AuditKind
from agent.domain.errors import NoRoom, OutdatedPolicy
from agent.domain.request import ExecutionStatus
from agent.store import ancestors, audit, call_locks, calls, runs, views
from agent.store.audit import AuditEntry
from agent.store.ids import new_id
from agent.usecases import attempts
from agent.usecases.executions.claims import CallToClaim, begin_attempt
from agent.usecases.runs.starts import write_run


async def delegate(
    db: Database, call: CallToClaim, *, agent: str, version: str, background: bool = False
) -> UUID | None:
    """Start a child run; its end answers the call. ``None``: nothing to run. Raises ``OutdatedPolicy``.

    ``background``: the parent's model goes on at once.
    """
    if (above_id := call.run_id) is None:
        return None
    async with db.transaction() as tx:
        locked = await call_locks.lock_ready(
            tx, [call.call_id], [above_id], [call.subject], uses=call.unapproved_uses, wait=True
        )
        found = locked.get(call.call_id)
        begun = await begin_attempt(tx, found, call.terms) if found else None
        if isinstance(begun, OutdatedPolicy):
            raise begun
        if begun is None or isinstance(begun, NoRoom):
            return None
        claimed, head = begun
        run_id = new_id()
        task = str(claimed.action.arguments["task"])
        child = await ancestors.child_run(tx, above_id, call.call_id, agent, version, task)
        await write_run(tx, run_id, child)
        delegated = f"delegated to run {run_id}"
        attempts.finish(tx, claimed.execution_id, ExecutionStatus.SUCCEEDED, delegated, head.at)
        detail = {"execution": str(claimed.execution_id), "attempt": claimed.attempt, "run": str(run_id)}
        audit.append(tx, head, AuditEntry(AuditKind.EXECUTION_SUCCEEDED, f"worker:{claimed.worker}", detail))
        calls.delegate(tx, call.call_id, blocking=not background)
        if background and found is not None and found.call.blocking:
            above = await views.run_view(tx, above_id)  # already locked
            waits_for = above.awaiting_calls if above else 0
            runs.release_call(tx, above_id, found.call.agent, last=waits_for <= 1)
    return run_id

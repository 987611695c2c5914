"""Messages for a run: what people and programs say to it."""

from __future__ import annotations

from uuid import UUID

from agent.database.pools import Database
from agent.domain.audit import AuditKind, run_subject
from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.run import RunStatus
from agent.store import audit, outbox, runs, views
from agent.store.outbox import Destination
from signoff.values import Person


async def replace_deleted_root(db: Database, team_id: str, channel_id: str, ts: str) -> None:
    """Post a deleted first message again while the run goes on."""
    async with db.transaction() as tx:
        run_id = await views.run_in_thread(tx, team_id, channel_id, ts)
        if run_id is not None:
            outbox.enqueue(tx, [outbox.run_root(Destination(team_id, channel_id), run_id)])


async def add_message(
    db: Database,
    run_id: UUID,
    text: str,
    author: Person | None,
    source_key: str | None,
    *,
    principal: str | None = None,
    administrator: bool = False,
) -> bool:
    """Add a person's message, from the run's thread or through the program ``principal``.

    A message of the requester, an ``administrator`` or the starting program resumes a failed or denied run. False:
    repeated, or the run was cancelled. Raises ``NotFound``, and ``Refused`` (recorded) for others' messages to an
    ended run.
    """
    async with db.transaction() as tx:
        run = await runs.lock(tx, run_id)
        if run is None:
            raise NotFound(f"no run {run_id}")
        known = source_key is not None and await runs.has_message(tx, source_key)
        if known or run.status is RunStatus.CANCELLED:
            return False
        who = principal or audit.actor(author)
        refused = run.over and not (administrator or _may_resume(run, author, principal))
        if refused:
            detail: dict[str, object] = {"refusal": Refusal.NOT_YOURS_TO_TAKE_UP.value, "path": "message"}
            await audit.record(tx, run_subject(run.id), AuditKind.RESUME_REFUSED, who, detail)
        else:
            runs.add_message(tx, run, "user", text, author=author, source_key=source_key)
            runs.reopen(tx, run.id, run.agent)
            await audit.record(tx, run_subject(run.id), AuditKind.RUN_MESSAGE, who, {"seq": run.last_seq + 1})
    if refused:
        raise Refused(Refusal.NOT_YOURS_TO_TAKE_UP)
    return True


def _may_resume(run: runs.LockedRun, author: Person | None, principal: str | None) -> bool:
    if principal is not None and principal == run.principal:
        return True
    return author is not None and author == run.requester

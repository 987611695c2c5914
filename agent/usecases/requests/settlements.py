"""Settle an execution in doubt: retry it, or take it as done."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Connection, Transaction
from agent.domain import eligibility
from agent.domain.audit import DIRECT, AuditKind
from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.people import Standing
from agent.domain.run import AnswerKind, CallAnswer
from agent.store import audit, calls, doubts, executions, external_executions, outbox, runs
from agent.store.doubts import Doubt
from agent.store.outbox import OutboxMessage
from agent.usecases import call_answers
from signoff.errors import Conflict

Word = Literal["retry", "done"]


async def settle(
    db: Database,
    execution_id: UUID,
    settler: Standing,
    verdict: Word,
    note: str | None = None,
    *,
    administrator: bool = False,
    thread: tuple[str, str] | None = None,
    path: str = DIRECT,
) -> None:
    """A person's word on an execution in doubt: try it again, or take it as done.

    ``thread`` (channel, ``ts``) is the run's thread where the button was pressed, if it was there. The first word
    counts. Raises ``NotFound``, ``Conflict`` (settled or not in doubt) and ``Refused`` (recorded before).
    """
    async with db.transaction() as tx:
        run, doubt = await _lock(tx, execution_id)
        if doubt is None:
            raise NotFound(f"no execution {execution_id}")
        if not doubt.open:
            raise Conflict("this execution is not in doubt any more")
        refused = _refusal(doubt, settler, administrator=administrator, thread=thread)
        detail = {"execution": str(execution_id), "verdict": verdict, "path": path}
        if refused is None:
            executions.settle(tx, execution_id, verdict, settler.person, note)
            await _record(tx, doubt, AuditKind.EXECUTION_SETTLED, settler, detail)
            _go_on(tx, run, doubt, verdict, note)
            outbox.enqueue(tx, _messages(run, doubt, settler, verdict, note))
        else:
            detail["refusal"] = refused.value
            await _record(tx, doubt, AuditKind.SETTLEMENT_REFUSED, settler, detail)
    if refused is not None:
        raise Refused(refused)


async def _lock(connection: Connection, execution_id: UUID) -> tuple[runs.LockedRun | None, Doubt | None]:
    """The attempt, behind its run; one that was claimed outside has none."""
    run_id = await executions.run_of(connection, execution_id)
    run = await runs.lock(connection, run_id) if run_id else None
    return run, await doubts.lock(connection, execution_id)


def _refusal(
    doubt: Doubt, settler: Standing, *, administrator: bool, thread: tuple[str, str] | None
) -> Refusal | None:
    """Why this person's word does not count, or ``None``. A doubt about a request is settled on its card."""
    if thread is not None and (doubt.asked or thread != doubt.run_thread):
        return Refusal.WRONG_PLACE
    return eligibility.settlement_refusal(doubt, settler, administrator=administrator)


async def _record(
    tx: Transaction, doubt: Doubt, kind: AuditKind, settler: Standing, detail: dict[str, str]
) -> None:
    await audit.record(tx, doubt.subject, kind, audit.actor(settler.person), detail)


def _messages(
    run: runs.LockedRun | None, doubt: Doubt, settler: Standing, verdict: Word, note: str | None
) -> list[OutboxMessage]:
    """For the card and its thread; without a request, for the run's thread, where the doubt was reported."""
    by = settler.person
    if doubt.request_id is not None and doubt.destination is not None:
        line = outbox.request_line(
            doubt.destination, doubt.request_id, "settled", by, text=verdict, reason=note
        )
        return [outbox.card(doubt.destination, doubt.request_id), line]
    if run is None or run.destination is None or doubt.call is None:
        return []
    facts = {"team": by.team_id, "user": by.user_id, "text": verdict, "reason": note, "tool": doubt.call.tool}
    return [outbox.run_line(run.destination, run.id, "settled", **facts)]


def _go_on(
    tx: Transaction, run: runs.LockedRun | None, doubt: Doubt, verdict: Word, note: str | None
) -> None:
    if run is None or doubt.call is None:
        if verdict == "retry" and doubt.request_id is not None:
            external_executions.reopen(tx, doubt.request_id)
    elif verdict == "retry":
        calls.make_ready_again(tx, doubt.call.id, run.agent)
    else:
        answer = CallAnswer(AnswerKind.DONE_BY_PERSON, note or "")
        call_answers.answer(tx, run, doubt.call, answer)

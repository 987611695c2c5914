"""A person's word on an execution whose outcome nobody can know."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Row

from agent.database.pools import Database
from agent.database.transaction import Connection, Transaction
from agent.domain.audit import AuditKind, request_subject, run_subject
from agent.domain.changes import between, edit_note
from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.people import Standing
from agent.domain.run import AnswerKind, CallAnswer
from agent.store import audit, calls, executions, external_executions, outbox, runs
from agent.store.audit import AuditEntry
from agent.store.outbox import Destination, OutboxMessage
from agent.usecases.requests.eligibility import DIRECTLY, conflict_of_interest, requester
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
    path: str = DIRECTLY,
) -> None:
    """A person's word on an execution in doubt: try it again, or take it as done.

    The same people may settle who may review; a call that nobody was asked about, its run's requester or an
    ``administrator`` of the workspace. ``thread`` (channel, ``ts``) is the run's thread where it was pressed, if it
    was there; ``path`` says by which door it came. The first word counts. Raises ``NotFound``, ``Conflict`` (settled
    or not in doubt) and ``Refused`` (recorded before).
    """
    async with db.transaction() as tx:
        run, doubt = await _found(tx, execution_id)
        if doubt is None:
            raise NotFound(f"no execution {execution_id}")
        if doubt.call_state != "in_doubt" or doubt.status != "in_doubt" or doubt.settled:
            raise Conflict("this execution is not in doubt any more")
        refused = _objection(doubt, settler, administrator=administrator, thread=thread)
        detail = {"execution": str(execution_id), "verdict": verdict, "path": path}
        if refused is None:
            await _settle(tx, run, doubt, settler, verdict, note, detail)
        else:
            await _record(tx, doubt, settler, refused, detail)
    if refused is not None:
        raise Refused(refused)


async def _found(connection: Connection, execution_id: UUID) -> tuple[runs.LockedRun | None, Row[Any] | None]:
    """The attempt, locked, behind its run; one that was claimed outside has none."""
    run_id = await executions.run_of(connection, execution_id)
    if run_id is None:
        return None, await external_executions.lock_attempt(connection, execution_id)
    return await runs.lock(connection, run_id), await executions.lock(connection, execution_id)


def _objection(
    doubt: Row[Any], settler: Standing, *, administrator: bool, thread: tuple[str, str] | None
) -> Refusal | None:
    """Why this person's word does not count, or ``None``."""
    asked = doubt.request_id is not None
    if thread is not None and (asked or thread != (doubt.run_channel_id, doubt.thread_ts)):
        return Refusal.WRONG_PLACE
    if settler.refusal is not None:
        return settler.refusal
    if not asked:
        own = settler.person == requester(doubt)
        return None if own or administrator else Refusal.NOT_YOURS_TO_SETTLE
    if not settler.roles & set(doubt.approvers):
        return Refusal.NOT_A_REVIEWER
    return conflict_of_interest(doubt, doubt, settler.person)


async def _settle(
    tx: Transaction,
    run: runs.LockedRun | None,
    doubt: Row[Any],
    settler: Standing,
    verdict: Word,
    note: str | None,
    detail: dict[str, str],
) -> None:
    executions.settle(tx, doubt.id, verdict, settler.person, note)
    audit.append(tx, await _head(tx, doubt), _entry(AuditKind.EXECUTION_SETTLED, settler, detail))
    _go_on(tx, run, doubt, verdict, note)
    outbox.enqueue(tx, _tellings(run, doubt, settler, verdict, note))


async def _record(
    tx: Transaction, doubt: Row[Any], settler: Standing, refused: Refusal, detail: dict[str, str]
) -> None:
    told = {"refusal": refused.value, **detail}
    audit.append(tx, await _head(tx, doubt), _entry(AuditKind.SETTLEMENT_REFUSED, settler, told))


async def _head(connection: Connection, doubt: Row[Any]) -> audit.ChainHead:
    asked = doubt.request_id is not None
    subject = request_subject(doubt.request_id) if asked else run_subject(doubt.run_id)
    return (await audit.lock_heads(connection, [subject]))[subject]


def _entry(kind: AuditKind, settler: Standing, detail: dict[str, str]) -> AuditEntry:
    return AuditEntry(kind, audit.actor(settler.person), detail)


def _tellings(
    run: runs.LockedRun | None, doubt: Row[Any], settler: Standing, verdict: Word, note: str | None
) -> list[OutboxMessage]:
    """The card and its thread hear of it; without a request, the run's thread, which told of the doubt."""
    by = settler.person
    if doubt.request_id is not None:
        destination = Destination(doubt.team_id, doubt.channel_id)
        line = outbox.request_line(destination, doubt.request_id, "settled", by, text=verdict, reason=note)
        return [outbox.card(destination, doubt.request_id), line]
    if run is None or run.destination is None:
        return []
    facts = {"team": by.team_id, "user": by.user_id, "text": verdict, "reason": note, "tool": doubt.tool}
    return [outbox.run_line(run.destination, run.id, "settled", **facts)]


def _go_on(
    tx: Transaction, run: runs.LockedRun | None, doubt: Row[Any], verdict: Word, note: str | None
) -> None:
    if run is None:
        if verdict == "retry":
            external_executions.reopen(tx, doubt.request_id)
        return
    if verdict == "retry":
        calls.make_ready_again(tx, doubt.call_id)
        return
    call = runs.EndedCall(
        doubt.call_id,
        doubt.tool,
        doubt.raw_arguments,
        doubt.blocking,
        doubt.request_id,
        None,
        doubt.repeats,
        edit_note(between(doubt.proposed_action, doubt.edited_action)),
    )
    runs.answer_call(tx, run, call, CallAnswer(AnswerKind.DONE_BY_PERSON, note or ""))

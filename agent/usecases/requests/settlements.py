"""An attempt in doubt is settled by people: retried, or taken as done."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Literal
from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Connection, Transaction
from agent.domain import eligibility
from agent.domain.audit import DIRECT, AuditKind
from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.people import Standing
from agent.domain.run import AnswerKind, CallAnswer
from agent.store import audit, calls, doubts, executions, outbox, runs
from agent.store.audit import AuditEntry
from agent.store.doubts import Doubt
from agent.store.executions import DoubtVote
from agent.store.outbox import OutboxMessage
from agent.usecases.calls import call_answers
from signoff.errors import Conflict
from signoff.values import Person

Word = Literal["retry", "done"]


class NewVoters(Exception):
    """People who voted after the standings were looked up."""

    def __init__(self, people: Sequence[Person]) -> None:
        super().__init__(", ".join(map(str, people)))
        self.people = tuple(people)


async def settle(
    db: Database,
    execution_id: UUID,
    settler: Standing,
    verdict: Word,
    note: str | None = None,
    *,
    others: Collection[Standing] = (),
    administrator: bool = False,
    thread: tuple[str, str] | None = None,
    path: str = DIRECT,
) -> int:
    """Settle a doubt: retry, or take it as done. Returns how many more people it takes.

    A retry can repeat the effect, so it takes as many people as the approval; ``others`` are earlier voters'
    standings. Taking it as done takes one. ``thread`` (channel, ``ts``): the run's thread with the button. Raises
    ``NotFound``, ``Conflict`` (settled or not in doubt), ``Refused`` (recorded) and ``NewVoters`` (missing in
    ``others``).
    """
    needed = 0
    async with db.transaction() as tx:
        run, doubt = await _lock(tx, execution_id)
        if doubt is None:
            raise NotFound(f"no execution {execution_id}")
        if not doubt.open:
            raise Conflict("this execution is not in doubt any more")
        refused = _refusal(doubt, settler, verdict, administrator=administrator, thread=thread)
        detail = {"execution": str(execution_id), "verdict": verdict, "path": path}
        if refused is None and verdict == "retry":
            needed = _needed(doubt, settler, others)
        if refused is not None:
            detail["refusal"] = refused.value
            await _record(tx, doubt, AuditKind.SETTLEMENT_REFUSED, settler, detail)
        elif needed:
            await _want_retry(tx, doubt, settler, note, needed, path)
        else:
            at = await _record(tx, doubt, AuditKind.EXECUTION_SETTLED, settler, detail)
            executions.settle(tx, DoubtVote(execution_id, verdict, settler.person, note, at))
            _go_on(tx, run, doubt, verdict, note)
            outbox.enqueue(tx, _messages(run, doubt, settler, verdict, note))
    if refused is not None:
        raise Refused(refused)
    return needed


async def _lock(connection: Connection, execution_id: UUID) -> tuple[runs.LockedRun | None, Doubt | None]:
    run_id = await executions.run_of(connection, execution_id)
    run = await runs.lock(connection, run_id) if run_id else None
    return run, await doubts.lock(connection, execution_id)


def _refusal(
    doubt: Doubt, settler: Standing, verdict: Word, *, administrator: bool, thread: tuple[str, str] | None
) -> Refusal | None:
    """A doubt about a request is settled on its card."""
    if thread is not None and (doubt.asked or thread != doubt.run_thread):
        return Refusal.WRONG_PLACE
    refused = eligibility.settlement_refusal(
        doubt, settler, retry=verdict == "retry", administrator=administrator
    )
    altered = verdict == "retry" and not doubt.terms_stand
    return refused or (Refusal.TERMS_ALTERED if altered else None)


def _needed(doubt: Doubt, settler: Standing, others: Collection[Standing]) -> int:
    """People missing for a retry, counting those still eligible. Raises ``NewVoters``."""
    earlier = [person for person in doubt.retry_voters if person != settler.person]
    standings = {each.person: each for each in others}
    if new := [person for person in earlier if person not in standings]:
        raise NewVoters(new)
    counted = [
        person
        for person in earlier
        if eligibility.settlement_refusal(doubt, standings[person], retry=True) is None
    ]
    return max(0, doubt.quorum - len(counted) - 1)


async def _want_retry(
    tx: Transaction, doubt: Doubt, settler: Standing, note: str | None, needed: int, path: str
) -> None:
    """Repeating a vote changes nothing."""
    by = settler.person
    if by in doubt.retry_voters or doubt.request_id is None or doubt.destination is None:
        return
    detail = {"execution": str(doubt.execution_id), "path": path}
    at = await _record(tx, doubt, AuditKind.EXECUTION_RETRY_WANTED, settler, detail)
    executions.want_retry(tx, DoubtVote(doubt.execution_id, "retry", by, note, at))
    line = outbox.request_line(
        doubt.destination, doubt.request_id, "retry_wanted", by, needed=needed, reason=note
    )
    outbox.enqueue(tx, [outbox.card(doubt.destination, doubt.request_id), line])


async def _record(
    tx: Transaction, doubt: Doubt, kind: AuditKind, settler: Standing, detail: dict[str, str]
) -> datetime:
    """When it happened."""
    head = await audit.lock_head(tx, doubt.subject)
    audit.append(tx, head, AuditEntry(kind, audit.actor(settler.person), detail))
    return head.at


def _messages(
    run: runs.LockedRun | None, doubt: Doubt, settler: Standing, verdict: Word, note: str | None
) -> list[OutboxMessage]:
    """Without a request, the run's thread reported the doubt and gets the message."""
    by = settler.person
    root = (
        [outbox.run_root(run.destination, run.id)] if run is not None and run.destination is not None else []
    )
    if doubt.request_id is not None and doubt.destination is not None:
        line = outbox.request_line(
            doubt.destination, doubt.request_id, "settled", by, text=verdict, reason=note
        )
        line = outbox.telling(line) if verdict == "done" else line
        return [outbox.card(doubt.destination, doubt.request_id), line, *root]
    if run is None or run.destination is None:
        return []
    facts = {"team": by.team_id, "user": by.user_id, "text": verdict, "reason": note, "tool": doubt.call.tool}
    return [outbox.run_line(run.destination, run.id, "settled", **facts), *root]


def _go_on(
    tx: Transaction, run: runs.LockedRun | None, doubt: Doubt, verdict: Word, note: str | None
) -> None:
    if verdict == "retry":
        calls.make_ready_again(tx, doubt.call.id, doubt.agent)
    else:
        answer = CallAnswer(AnswerKind.DONE_BY_PERSON, note or "")
        call_answers.answer(tx, run, doubt.call, answer)

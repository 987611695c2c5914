"""The use cases on a request, one transaction each: open, vote, withdraw, expire, ask again, settle.

Each writes its facts, their audit events, what must be told and the hints that follow, together or not at all.
Refusals are facts too: they are recorded, committed, and then raised.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from agent import jobs
from agent.domain.action import canonical_bytes
from agent.domain.audit import AuditKind
from agent.domain.errors import Conflict, NotFound, Refusal, Refused
from agent.domain.people import Person, Standing
from agent.domain.request import Ballot, Place, RequestStatus, Verdict
from agent.domain.run import Answer, AnswerKind
from agent.domain.tally import LiveVote, Tally, tally
from agent.faults import point
from agent.store import chain, locks, outbox
from agent.store.batch import Batch
from agent.store.chain import ChainHead, Entry
from agent.store.database import Database
from agent.store.ids import new_id
from agent.store.outbox import Outlet
from agent.store.writes import calls, executions, requests, runs
from agent.store.writes.requests import Ending, NewRequest

__all__ = [
    "NewRequest",
    "Opened",
    "Voted",
    "ask_again",
    "expire_due",
    "open",
    "record_refusal",
    "settle",
    "vote",
    "withdraw",
]


@dataclass(frozen=True, slots=True)
class Opened:
    """The request that stands for this question; ``created`` is false when it was there already."""

    request_id: UUID
    created: bool


@dataclass(frozen=True, slots=True)
class Voted:
    """What a vote led to. ``needed`` approvals are still missing; ``repeated``: it had been counted before."""

    status: RequestStatus
    approvals: int
    needed: int
    repeated: bool = False


# --- open -------------------------------------------------------------------------------------------------


async def open(db: Database, new: NewRequest) -> Opened:  # noqa: A001 - the word of the trade
    """Put a question to people. Opening the same one again returns it.

    A request of a run's call parks the run (or lets it go on, for a background call). Raises ``Conflict`` when
    the same client id is used for other content or the run has ended, ``NotFound`` when the call does not exist.
    """
    async with db.transaction() as connection:
        batch = Batch()
        ask_no = 1
        if new.call_id is not None:
            call = await locks.new_call(connection, new.call_id)
            if call is None:
                raise NotFound(f"no tool call {new.call_id}")
            if call.state != "new":
                return await _existing(connection, new)
            if call.in_vain:
                raise Conflict(f"the run of tool call {new.call_id} has ended")
            ask_no = call.ask_no + 1
            _park(batch, call, new)
        elif (existing := await _find(connection, new)) is not None:
            return existing
        request_id = new_id()
        head = chain.fresh(chain.request_subject(request_id), await locks.clock(connection))
        write_request(batch, request_id, new, ask_no, head)
        await batch.send(connection)
        point("before_request_commits")
    point("after_request_commits")
    return Opened(request_id, created=True)


def write_request(batch: Batch, request_id: UUID, new: NewRequest, ask_no: int, head: ChainHead) -> None:
    """The rows of a new request, its first audit event, its card, and the line in its run's thread."""
    requests.insert(batch, request_id, new, content_digest(new), ask_no)
    detail = {
        "digest": new.action.digest.hex(),
        "checkpoint": new.rule.checkpoint_id,
        "risk": new.rule.risk.value,
        "ask_no": ask_no,
        "call": str(new.call_id) if new.call_id else None,
    }
    chain.append(batch, head, Entry(AuditKind.REQUEST_OPENED, f"agent:{new.agent}", detail))
    outbox.tell(batch, [outbox.card(new.outlet, request_id, new=True)])
    if new.call_id and new.has_pending_hook:
        batch.hint(jobs.execute_call(new.call_id))


def content_digest(new: NewRequest) -> bytes:
    """SHA-256 over everything that a second opening under the same id must repeat."""
    content = {
        "action": new.action.digest.hex(),
        "agent": new.agent,
        "description": new.description,
        "requester": str(new.requester) if new.requester else None,
    }
    return hashlib.sha256(canonical_bytes(content)).digest()


def _park(batch: Batch, call: Row[Any], new: NewRequest) -> None:
    """The call waits for people; its run waits for it, unless the call may go on in the background."""
    released = call.blocking and new.background
    calls.ask(batch, new, blocking=call.blocking and not new.background)
    if released:
        runs.release(batch, call.run_id, last=call.awaiting_calls <= 1)
    elif call.blocking:
        runs.park(batch, call.run_id)
    if call.team_id and call.channel_id:
        outlet = Outlet(call.team_id, call.channel_id)
        outbox.tell(
            batch,
            [
                outbox.run_line(
                    outlet,
                    call.run_id,
                    "pending",
                    text=new.description,
                    channel=new.outlet.channel_id,
                    call=str(new.call_id),
                )
            ],
        )


async def _existing(connection: AsyncConnection, new: NewRequest) -> Opened:
    found = await locks.request_of_call(connection, new.call_id) if new.call_id else None
    if found is None:
        raise Conflict(f"tool call {new.call_id} has been judged otherwise already")
    if found.digest != new.action.digest:
        raise Conflict(f"tool call {new.call_id} was asked about with other arguments")
    return Opened(found.id, created=False)


async def _find(connection: AsyncConnection, new: NewRequest) -> Opened | None:
    found = await locks.request_of_client(connection, new.principal, new.client_id)
    if found is None:
        return None
    if found.content_digest != content_digest(new):
        raise Conflict(f"request {new.client_id!r} exists with other content")
    return Opened(found.id, created=False)


# --- vote -------------------------------------------------------------------------------------------------


async def vote(db: Database, ballot: Ballot) -> Voted:
    """Count one reviewer's word on one revision; the one that completes the tally decides.

    One row lock orders all votes on a request, and the deadline is read from the database's clock after it.
    The same word again changes nothing. Raises ``Refused`` (recorded before), ``BudgetExceeded`` and
    ``OutcomeUnknown`` (nothing is known to be recorded; voting again is safe).
    """
    async with db.decision_transaction() as connection:
        outcome = await _vote(connection, ballot)
        point("before_decision_commits")
    point("after_decision_commits")
    if isinstance(outcome, Refused):
        raise outcome
    return outcome


async def _vote(connection: AsyncConnection, ballot: Ballot) -> Voted | Refused:
    nonce = ballot.place.nonce if ballot.place else None
    subject = chain.request_subject(ballot.request_id)
    found = await locks.ballot(connection, ballot.request_id, subject, nonce)
    if found is None:
        return Refused(Refusal.UNKNOWN_REQUEST)
    request, state = found
    if ballot.place is not None and state.nonce is None:
        return Refused(Refusal.UNKNOWN_REQUEST)
    head = ChainHead(subject, state.seq, state.hash, state.now)
    mine = next((v for v in state.votes if _voter(v) == ballot.voter.person), None)
    count = _tally(request, state.votes, ballot)
    same = mine is not None and mine[2] == ballot.verdict.value and int(mine[4]) == ballot.revision
    if same and ballot.voter.refusal is None and request.status == _DECIDES[ballot.verdict].value:
        return Voted(RequestStatus(request.status), count.approvals, count.needed, repeated=True)
    batch = Batch()
    refused = _objection(request, state, ballot)
    if refused is not None:
        chain.append(batch, head, _refusal_entry(ballot, refused.code))
        await batch.send(connection)
        return refused
    if same and count.outcome is None:
        return Voted(RequestStatus.WAITING, count.approvals, count.needed, repeated=True)
    _bind_place(batch, state, ballot.place)
    earlier: list[tuple[ChainHead, Entry]] = []
    if not same:
        _cast(batch, request, mine, ballot)
        earlier = [(head, Entry(AuditKind.VOTE_CAST, chain.actor(ballot.voter.person), _vote_detail(ballot)))]
    _conclude(batch, request, count, ballot, head, earlier)
    await batch.send(connection)
    return Voted(RequestStatus(count.outcome or "waiting"), count.approvals, count.needed)


_DECIDES = {Verdict.APPROVE: RequestStatus.APPROVED, Verdict.REJECT: RequestStatus.REJECTED}


def _tally(request: Row[Any], votes: Sequence[Sequence[str]], ballot: Ballot) -> Tally:
    """The count with this ballot in it. Votes of people who lost the right are void for as long as they lack it.

    So the same word said again is counted anew: it may complete what an earlier count could not.
    """
    person = ballot.voter.person
    standing = [v for v in votes if _voter(v) != person and _still_counts(request, ballot, _voter(v))]
    live = [LiveVote(v[0], v[1], v[2]) for v in standing if int(v[4]) == request.revision]
    mine = LiveVote(person.team_id, person.user_id, ballot.verdict.value)
    return tally([*live, mine], request.approvals_required)


def _objection(request: Row[Any], state: Row[Any], ballot: Ballot) -> Refused | None:
    """Why this vote does not count, or ``None``. In doubt it does not."""
    place, voter = ballot.place, ballot.voter
    if place is not None and not _fits(state, place, voter.person):
        return Refused(Refusal.WRONG_PLACE)
    if voter.refusal is not None:
        return Refused(voter.refusal)
    if not request.approvers:
        return Refused(Refusal.NO_REVIEWERS)
    if not voter.roles & set(request.approvers):
        return Refused(Refusal.NOT_A_REVIEWER)
    if request.prevent_self_review and voter.person == _requester(request):
        return Refused(Refusal.SELF_REVIEW)
    if (ended := _ended(request, state)) is not None:
        return ended
    if ballot.revision != request.revision:
        return Refused(Refusal.STALE_REVISION)
    return None


def _ended(request: Row[Any], state: Row[Any]) -> Refused | None:
    status = RequestStatus(request.status)
    if status is RequestStatus.CANCELLED:
        return Refused(Refusal.WITHDRAWN)
    late = status is RequestStatus.WAITING and request.expires_at <= state.now
    if status is RequestStatus.EXPIRED or late:
        return Refused(Refusal.EXPIRED, at=request.expires_at)
    if status is not RequestStatus.WAITING:
        by, at = state.decided_by, request.decided_at
        return Refused(Refusal.ALREADY_DECIDED, outcome=status.value, by=by, at=at)
    return None


def _fits(state: Row[Any], place: Place, voter: Person) -> bool:
    """The stored place is where the click came from; an unsaved ``ts`` binds to the first valid click.

    A place outside a channel belongs to one person.
    """
    if state.surface != place.surface:
        return False
    if state.surface != "channel":
        return (state.place_team, state.place_user) == (voter.team_id, voter.user_id)
    return state.place_channel == place.channel_id and state.place_ts in (None, place.message_ts)


def _bind_place(batch: Batch, state: Row[Any], place: Place | None) -> None:
    if place is not None and state.surface == "channel" and state.place_ts is None and place.message_ts:
        requests.bind_place(batch, place.nonce, place.message_ts)


def _cast(batch: Batch, request: Row[Any], mine: Sequence[str] | None, ballot: Ballot) -> None:
    person, supersedes = ballot.voter.person, UUID(mine[3]) if mine else None
    requests.cast_vote(
        batch,
        requests.Vote(
            request.id, request.revision, person, ballot.verdict, ballot.reason, ballot.path, supersedes
        ),
    )


def _conclude(
    batch: Batch,
    request: Row[Any],
    count: Tally,
    ballot: Ballot,
    head: ChainHead,
    earlier: Sequence[tuple[ChainHead, Entry]],
) -> None:
    """The decision, if the tally is complete; else people see how far it is."""
    person = ballot.voter.person
    outlet = Outlet(request.team_id, request.channel_id)
    if count.outcome is None:
        chain.append_all(batch, earlier)
        facts = {"needed": count.needed, "verdict": ballot.verdict.value, "reason": ballot.reason}
        line = outbox.request_line(outlet, request.id, "voted", person, **facts)
        outbox.tell(batch, [outbox.card(outlet, request.id), line])
        return
    ending = Ending(
        request_id=request.id,
        call_id=request.call_id,
        outlet=outlet,
        revision=request.revision,
        digest=request.digest,
        outcome=RequestStatus(count.outcome),
        by=person,
        reason=ballot.reason,
        head=head,
    )
    requests.end(batch, [ending], earlier=earlier)


def _still_counts(request: Row[Any], ballot: Ballot, person: Person) -> bool:
    standing = ballot.standings.get(person)
    if standing is None or standing.refusal is not None:
        return False
    return bool(standing.roles & set(request.approvers))


def _voter(row: Sequence[str]) -> Person:
    return Person(row[0], row[1])


def _requester(request: Row[Any]) -> Person | None:
    if request.requester_user_id is None:
        return None
    return Person(request.requester_team_id, request.requester_user_id)


def _subject(request: Row[Any]) -> str:
    return chain.request_subject(request.id)


def _vote_detail(ballot: Ballot) -> dict[str, Any]:
    return {"verdict": ballot.verdict.value, "revision": ballot.revision, "path": ballot.path}


def _refusal_entry(ballot: Ballot, code: Refusal) -> Entry:
    detail = {"refusal": code.value, **_vote_detail(ballot)}
    return Entry(AuditKind.VOTE_REFUSED, chain.actor(ballot.voter.person), detail)


async def record_refusal(
    db: Database, request_id: UUID, revision: int, who: Person, refusal: Refusal, path: str
) -> None:
    """Record that somebody was turned away before a vote could be made of it."""
    async with db.transaction() as connection:
        if await locks.request(connection, request_id) is None:
            return
        subject = chain.request_subject(request_id)
        head = (await chain.lock_heads(connection, [subject]))[subject]
        batch = Batch()
        detail = {"refusal": refusal.value, "revision": revision, "path": path}
        chain.append(batch, head, Entry(AuditKind.VOTE_REFUSED, chain.actor(who), detail))
        await batch.send(connection)


# --- withdraw, expire -------------------------------------------------------------------------------------


async def withdraw(db: Database, request_id: UUID, by: Person | None, reason: str | None) -> bool:
    """Take the question back. False when it was decided already. Raises ``NotFound``."""
    async with db.transaction() as connection:
        request = await locks.request(connection, request_id)
        if request is None:
            raise NotFound(f"no request {request_id}")
        if request.status != RequestStatus.WAITING.value:
            return False
        heads = await chain.lock_heads(connection, [_subject(request)])
        batch = Batch()
        requests.end(batch, [_ending(request, RequestStatus.CANCELLED, by, reason, heads)])
        await batch.send(connection)
    return True


async def expire_due(db: Database, *, batch_size: int = 500) -> int:
    """End what nobody answered in time; any number of processes may do so at once. Returns how many."""
    expired = 0
    while True:
        async with db.transaction() as connection:
            due = await locks.due(connection, batch_size)
            if due:
                heads = await chain.lock_heads(connection, [_subject(row) for row in due])
                batch = Batch()
                requests.end(batch, [_ending(row, RequestStatus.EXPIRED, None, None, heads) for row in due])
                await batch.send(connection)
                point("in_expiry_batch")
        expired += len(due)
        if len(due) < batch_size:
            return expired


def _ending(
    request: Row[Any],
    outcome: RequestStatus,
    by: Person | None,
    reason: str | None,
    heads: dict[str, ChainHead],
) -> Ending:
    return Ending(
        request_id=request.id,
        call_id=request.call_id,
        outlet=Outlet(request.team_id, request.channel_id),
        revision=request.revision,
        digest=request.digest,
        outcome=outcome,
        by=by,
        reason=reason,
        head=heads[_subject(request)],
    )


# --- ask again, settle ------------------------------------------------------------------------------------


async def ask_again(db: Database, request_id: UUID, by: Standing) -> UUID:
    """After an expiry, let the requester have the same action judged and asked about anew.

    It becomes a new call of the same run whose outcome the model hears of when it comes; asking twice is one
    call. Returns the call's id. Raises ``NotFound``, ``Conflict`` (not expired) and ``Refused``.
    """
    async with db.transaction() as connection:
        expired = await locks.expired_call(connection, request_id)
        if expired is None:
            raise NotFound(f"no request {request_id} of a run")
        if by.refusal is not None:
            raise Refused(by.refusal)
        if by.person != _requester(expired):
            raise Refused(Refusal.NOT_A_REVIEWER)
        if expired.status != RequestStatus.EXPIRED.value:
            raise Conflict("only an expired request can be asked again")
        await runs.lock(connection, expired.run_id)
        call_id, created = await calls.repeat(connection, expired.call_id)
        if not created:
            return call_id
        subject = chain.request_subject(request_id)
        head = (await chain.lock_heads(connection, [subject]))[subject]
        batch = Batch()
        entry = Entry(AuditKind.REQUEST_REOPENED, chain.actor(by.person), {"call": str(call_id)})
        chain.append(batch, head, entry)
        outbox.tell(batch, [outbox.card(Outlet(expired.team_id, expired.channel_id), request_id)])
        batch.hint(jobs.execute_call(call_id))
        await batch.send(connection)
        return call_id


async def settle(
    db: Database,
    execution_id: UUID,
    settler: Standing,
    verdict: Literal["retry", "done"],
    note: str | None = None,
) -> None:
    """A person's word on an execution in doubt: try it again, or take it as done.

    The same people may settle who may review; for a call that nobody was asked about, its requester. The first
    word counts. Raises ``NotFound``, ``Conflict`` (settled or not in doubt) and ``Refused``.
    """
    async with db.transaction() as connection:
        run_id = await locks.run_of_execution(connection, execution_id)
        run = await runs.lock(connection, run_id) if run_id else None
        doubt = await locks.execution(connection, execution_id)
        if run is None or doubt is None:
            raise NotFound(f"no execution {execution_id}")
        if doubt.call_state != "in_doubt" or doubt.status != "in_doubt" or doubt.settled:
            raise Conflict("this execution is not in doubt any more")
        _may_settle(doubt, settler)
        batch = Batch()
        subject = chain.request_subject(doubt.request_id) if doubt.request_id else chain.run_subject(run.id)
        head = (await chain.lock_heads(connection, [subject]))[subject]
        executions.settle(batch, execution_id, verdict, settler.person, note)
        detail = {"execution": str(execution_id), "verdict": verdict}
        chain.append(batch, head, Entry(AuditKind.EXECUTION_SETTLED, chain.actor(settler.person), detail))
        _go_on(batch, run, doubt, verdict, note)
        if doubt.request_id:
            outlet = Outlet(doubt.team_id, doubt.channel_id)
            line = outbox.request_line(
                outlet, doubt.request_id, "settled", settler.person, text=verdict, reason=note
            )
            outbox.tell(batch, [outbox.card(outlet, doubt.request_id), line])
        await batch.send(connection)


def _may_settle(doubt: Row[Any], settler: Standing) -> None:
    if settler.refusal is not None:
        raise Refused(settler.refusal)
    requester = _requester(doubt)
    if doubt.request_id is None:
        if settler.person != requester:
            raise Refused(Refusal.NOT_A_REVIEWER)
        return
    if not settler.roles & set(doubt.approvers):
        raise Refused(Refusal.NOT_A_REVIEWER)
    if doubt.prevent_self_review and settler.person == requester:
        raise Refused(Refusal.SELF_REVIEW)


def _go_on(batch: Batch, run: runs.LockedRun, doubt: Row[Any], verdict: str, note: str | None) -> None:
    if verdict == "retry":
        calls.make_ready_again(batch, doubt.call_id)
        return
    call = runs.EndedCall(
        doubt.call_id, doubt.tool, doubt.raw_arguments, doubt.blocking, doubt.request_id, None, doubt.repeats
    )
    runs.answer(batch, run, call, Answer(AnswerKind.DONE_BY_PERSON, note or ""))

"""Counting reviewers' words until they make a decision.

Refusals are facts too: they are recorded, committed, and then raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.audit import AuditKind, request_subject
from agent.domain.errors import Refusal, Refused
from agent.domain.request import Ballot, RequestStatus, Verdict
from agent.domain.tally import LiveVote, Tally, tally
from agent.fault_points import point
from agent.store import audit, outbox, request_endings, request_locks, requests
from agent.store.audit import AuditEntry, ChainHead
from agent.store.outbox import Destination
from agent.usecases.requests.eligibility import bind_place, editor, vote_refusal
from agent.usecases.requests.endings import ending
from signoff.values import Person


@dataclass(frozen=True, slots=True)
class VoteOutcome:
    """What a vote led to. ``needed`` approvals are still missing; ``repeated``: it had been counted before."""

    status: RequestStatus
    approvals: int
    needed: int
    repeated: bool = False


async def vote(db: Database, ballot: Ballot) -> VoteOutcome:
    """Count one reviewer's word on one revision; the one that completes the tally decides.

    One row lock orders all votes on a request, and the deadline is read from the database's clock after it.
    The same word again changes nothing. Raises ``Refused`` (recorded before), ``BudgetExceeded`` and
    ``OutcomeUnknown`` (nothing is known to be recorded; voting again is safe).
    """
    async with db.decision_transaction() as tx:
        outcome = await _vote(tx, ballot)
        point("before_decision_commits")
    point("after_decision_commits")
    if isinstance(outcome, Refused):
        raise outcome
    return outcome


async def _vote(tx: Transaction, ballot: Ballot) -> VoteOutcome | Refused:
    nonce = ballot.place.nonce if ballot.place else None
    subject = request_subject(ballot.request_id)
    found = await request_locks.lock_for_vote(tx, ballot.request_id, subject, nonce)
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
        return VoteOutcome(RequestStatus(request.status), count.approvals, count.needed, repeated=True)
    refused = _objection(request, state, ballot)
    if refused is not None:
        audit.append(tx, head, _refusal_entry(ballot, refused.code))
        return refused
    if same and count.outcome is None:
        return VoteOutcome(RequestStatus.WAITING, count.approvals, count.needed, repeated=True)
    bind_place(tx, state, ballot.place)
    earlier: list[tuple[ChainHead, AuditEntry]] = []
    if not same:
        _cast(tx, request, mine, ballot)
        earlier = [
            (head, AuditEntry(AuditKind.VOTE_CAST, audit.actor(ballot.voter.person), _vote_detail(ballot)))
        ]
    _conclude(tx, request, state.digest, count, ballot, head, earlier)
    return VoteOutcome(RequestStatus(count.outcome or "waiting"), count.approvals, count.needed)


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
    """Why this vote does not count, or ``None``."""
    refused = vote_refusal(request, state, ballot.voter, ballot.place, ballot.revision)
    if refused is not None:
        return refused
    approves = ballot.verdict is Verdict.APPROVE
    if approves and not request.editor_may_approve and ballot.voter.person == editor(state):
        return Refused(Refusal.EDITOR_ALONE)
    if ballot.verdict.value in request.reason_required and not (ballot.reason or "").strip():
        return Refused(Refusal.REASON_REQUIRED)
    return None


def _cast(tx: Transaction, request: Row[Any], mine: Sequence[str] | None, ballot: Ballot) -> None:
    person, supersedes = ballot.voter.person, UUID(mine[3]) if mine else None
    requests.cast_vote(
        tx,
        requests.Vote(
            request.id, request.revision, person, ballot.verdict, ballot.reason, ballot.path, supersedes
        ),
    )


def _conclude(
    tx: Transaction,
    request: Row[Any],
    digest: bytes,
    count: Tally,
    ballot: Ballot,
    head: ChainHead,
    earlier: Sequence[tuple[ChainHead, AuditEntry]],
) -> None:
    """The decision, if the tally is complete; else people see how far it is."""
    person = ballot.voter.person
    destination = Destination(request.team_id, request.channel_id)
    if count.outcome is None:
        audit.append_all(tx, earlier)
        facts = {"needed": count.needed, "verdict": ballot.verdict.value, "reason": ballot.reason}
        line = outbox.request_line(destination, request.id, "voted", person, **facts)
        outbox.enqueue(tx, [outbox.card(destination, request.id), line])
        return
    decided = ending(request, digest, RequestStatus(count.outcome), person, ballot.reason, head)
    request_endings.end_requests(tx, [decided], earlier=earlier)


def _still_counts(request: Row[Any], ballot: Ballot, person: Person) -> bool:
    standing = ballot.standings.get(person)
    if standing is None or standing.refusal is not None:
        return False
    return bool(standing.roles & set(request.approvers))


def _voter(row: Sequence[str]) -> Person:
    return Person(row[0], row[1])


def _vote_detail(ballot: Ballot) -> dict[str, Any]:
    detail = {"verdict": ballot.verdict.value, "revision": ballot.revision, "path": ballot.path}
    return detail | ({"principal": ballot.principal} if ballot.principal else {})


def _refusal_entry(ballot: Ballot, code: Refusal) -> AuditEntry:
    detail = {"refusal": code.value, **_vote_detail(ballot)}
    return AuditEntry(AuditKind.VOTE_REFUSED, audit.actor(ballot.voter.person), detail)


async def record_refusal(
    db: Database,
    request_id: UUID,
    revision: int,
    who: Person | str,
    refusal: Refusal,
    path: str,
    kind: AuditKind = AuditKind.VOTE_REFUSED,
    principal: str | None = None,
) -> None:
    """Record that somebody was turned away before a vote, or what else ``kind`` says, could be made of it.

    ``principal`` is the key that carried their word, if one did.
    ``who`` may be a program that had no word at all, by the name of its principal.
    """
    async with db.transaction() as tx:
        if await request_locks.lock(tx, request_id) is None:
            return
        subject = request_subject(request_id)
        head = (await audit.lock_heads(tx, [subject]))[subject]
        detail = {"refusal": refusal.value, "revision": revision, "path": path}
        detail |= {"principal": principal} if principal else {}
        actor = who if isinstance(who, str) else audit.actor(who)
        audit.append(tx, head, AuditEntry(kind, actor, detail))

"""A vote, from its arrival to its answer, from top to bottom. Refusals are recorded and committed, too.

Concurrent votes of a process wait for a wave and share its transaction: a commit each would cost most of the time.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol
from uuid import UUID

import structlog

from agent.database.errors import BudgetExceeded
from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain import eligibility, together
from agent.domain.answers import AnswerForm, AnswerValue, UnfitAnswer
from agent.domain.audit import AuditKind, request_subject
from agent.domain.errors import Refusal, Refused
from agent.domain.request import Ballot, Electorate, RequestStatus, Verdict
from agent.domain.tally import LiveVote, Tally, tally
from agent.domain.verdicts import VERDICTS, verdicts_on
from agent.fault_points import point
from agent.store import audit, decisions, limits, outbox, request_locks, requests, runs, vote_locks
from agent.store.audit import AuditEntry, ChainHead
from agent.store.claimable_calls import ClaimableCall
from agent.store.vote_locks import ReviewedRequest, StoredVote
from agent.usecases.calls import attempts
from agent.usecases.calls.attempts import Claim, ClaimTerms
from agent.usecases.requests import places
from agent.usecases.requests.outcomes import RequestEnding, end_requests, sent_together
from agent.usecases.waves import SKIPPED, Settled, Wave
from signoff.errors import SignoffError
from signoff.values import Action, Person
from signoff.visible_text import says_nothing

PATIENCE = 0.25
"""Seconds that a vote waits for another transaction before a second one begins."""

LEAST = 0.5
"""Seconds left when a vote's transaction begins."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class VoteOutcome:
    """``needed``: missing approvals. ``repeated``: counted before."""

    status: RequestStatus
    approvals: int
    needed: int
    repeated: bool = False


class NotLookedUp(Exception):
    """Nothing was counted, because a right is not known: it has to be looked up for the next attempt."""

    def __init__(self, electorate: Electorate) -> None:
        super().__init__(", ".join(map(str, electorate.voters)))
        self.electorate = electorate


class Denials(Protocol):
    """What policy denies by now, although people are asked about it."""

    def names(self, tool: str) -> bool:
        """Whether any denial names this tool. Must be quick and not raise."""

    async def why(self, request_id: UUID, tool: str | None) -> str | None:
        """Why a request's action is denied; None: it is not. ``tool``: its own, if known."""


class Claimant(Protocol):
    """Runs calls in this process; may claim one with its approval."""

    def judge(self, call: ClaimableCall, approved: Action) -> ClaimTerms | None:
        """``None`` leaves the approved call ready. Must not raise."""

    def begin(self, claim: Claim) -> object:
        """Run a committed claim's tool. Must be quick and not raise."""


@dataclass(frozen=True, slots=True)
class _Cast:
    ballot: Ballot
    deadline: float


class Votes:
    """Counts the votes of one process.

    ``claims``: claim up to so many calls in one transaction; ``None`` if the process cannot.
    """

    def __init__(
        self,
        db: Database,
        denials: Denials,
        claims: Callable[[int], AbstractContextManager[Claimant | None]],
    ) -> None:
        self.db = db
        self._denials = denials
        self._claims = claims
        self._wave: Wave[_Cast, VoteOutcome] = Wave(
            self._count, key=lambda cast: cast.ballot.request_id, patience=PATIENCE
        )

    async def cast(self, ballot: Ballot, deadline: float = math.inf) -> VoteOutcome:
        """Returns, or raises ``OutcomeUnknown``, by its ``deadline`` (monotonic). The approved call may have begun.

        Raises ``Refused`` (recorded) and ``NotLookedUp``.
        """
        if ballot.verdict is Verdict.APPROVE and ballot.rights is None:
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    denied = await self._denials.why(ballot.request_id, ballot.tool)
            except TimeoutError:
                raise _too_late() from None
            ballot = replace(ballot, denied=denied)
        return await self._wave.join(_Cast(ballot, deadline))

    async def finish(self) -> None:
        await self._wave.finish()

    async def _count(self, members: Sequence[_Cast], *, wait: bool) -> list[Settled[VoteOutcome]]:
        """Late ones are left out: the transaction ends at the earliest deadline, which would be too soon for all."""
        latest = time.monotonic() + LEAST
        timely = [each for each in members if each.deadline >= latest]
        counted = iter(await self._count_and_claim(timely, wait=wait) if timely else ())
        return [next(counted) if each.deadline >= latest else _too_late() for each in members]

    async def _count_and_claim(self, members: Sequence[_Cast], *, wait: bool) -> list[Settled[VoteOutcome]]:
        """A vote that goes alone counts whatever is wrong with its claim."""
        ballots = [each.ballot for each in members]
        count = partial(
            count_votes,
            self.db,
            ballots,
            wait=wait,
            may_be_denied=self._denials.names,
            deadline=min(each.deadline for each in members),
        )
        with self._claims(sum(each.verdict is Verdict.APPROVE for each in ballots)) as claimant:
            try:
                return await count(claimant=claimant)
            except SignoffError:
                raise
            except Exception:
                if claimant is None or len(ballots) > 1:
                    raise
                log.exception("not claimed with its decision", action="call.not_claimed")
        return await count()


def _any_tool(_tool: str) -> bool:
    return True


def _too_late() -> BudgetExceeded:
    return BudgetExceeded("the vote had to wait too long to be counted in time: nothing was written")


async def count_votes(
    db: Database,
    ballots: Sequence[Ballot],
    *,
    wait: bool,
    claimant: Claimant | None = None,
    may_be_denied: Callable[[str], bool] = _any_tool,
    deadline: float = math.inf,
) -> list[Settled[VoteOutcome]]:
    """Count each vote on one revision; the one that completes the tally decides.

    A row lock orders a request's votes; the database's clock checks the deadline under it. Repeating a vote changes
    nothing. A result may be ``Refused`` (recorded) or ``NotLookedUp``. After ``BudgetExceeded`` nothing is recorded;
    after ``OutcomeUnknown``, voting again is safe.

    ``claimant`` claims calls with their decisions. ``may_be_denied``: whether policy has to be asked before an approval
    of this tool counts. ``deadline`` is monotonic. SKIPPED, without ``wait``: unknown, locked elsewhere, or the second
    ballot on a request.
    """
    nonces: dict[UUID, str | None] = {}
    for ballot in ballots:
        nonces.setdefault(ballot.request_id, ballot.place.nonce if ballot.place else None)
    approvals = [each.request_id for each in ballots if each.verdict is Verdict.APPROVE]
    outcomes: list[Settled[VoteOutcome]] = []
    async with db.decision_transaction(deadline) as tx:
        locked = await vote_locks.lock(tx, nonces, wait=wait, claims=approvals if claimant else ())
        for ballot in ballots:
            if (request := locked.pop(ballot.request_id, None)) is None:
                outcomes.append(Refused(Refusal.UNKNOWN_REQUEST) if wait else SKIPPED)
                continue
            tx.next_member()
            with_rights = _with_rights(request, ballot, may_be_denied)
            outcome = _vote(tx, request, with_rights, claimant) if with_rights else None
            outcomes.append(outcome or NotLookedUp(_electorate(request, ballot)))
            if outcome is not None:
                point("before_decision_commits")
        if not all(isinstance(each, NotLookedUp) for each in outcomes):
            tx.after_commit(partial(point, "after_decision_commits"))
    return outcomes


def _with_rights(
    request: ReviewedRequest, ballot: Ballot, may_be_denied: Callable[[str], bool]
) -> Ballot | None:
    """The ballot with the standings of all who vote; None: somebody, or policy, has to be asked first."""
    if ballot.rights is None or _refused_to_anybody(request, ballot):
        return ballot
    if ballot.verdict is Verdict.APPROVE and may_be_denied(request.tool):
        return None
    if (standings := ballot.rights(_electorate(request, ballot))) is None:
        return None
    return replace(ballot, voter=standings[ballot.voter.person], standings=standings)


def _electorate(request: ReviewedRequest, ballot: Ballot) -> Electorate:
    voters = (ballot.voter.person, *(each.person for each in _others(request, ballot)))
    at = request.destination
    return Electorate(at.team_id, at.channel_id, request.approvers, voters, request.tool)


def _refused_to_anybody(request: ReviewedRequest, ballot: Ballot) -> Refused | None:
    """Not recorded."""
    if ballot.place is not None and request.place is None:
        return Refused(Refusal.UNKNOWN_REQUEST)
    if ballot.form_asks_reason and _lacks_reason(request, ballot):
        return Refused(Refusal.REASON_REQUIRED)
    return None


def _lacks_reason(request: ReviewedRequest, ballot: Ballot) -> bool:
    return ballot.verdict.value in request.reason_required and says_nothing(ballot.reason)


def _vote(
    tx: Transaction, request: ReviewedRequest, ballot: Ballot, claimant: Claimant | None
) -> VoteOutcome | Refused | None:
    """None: somebody has voted since the standings were looked up.

    Repetitions come first: whoever presses twice reads the outcome, and no refusal is recorded.
    """
    if (refused := _refused_to_anybody(request, ballot)) is not None:
        return refused
    mine = next((v for v in request.votes if v.person == ballot.voter.person), None)
    counted = _counted(request, ballot)
    count = tally(
        [LiveVote(p.team_id, p.user_id, v, said) for p, (v, said) in counted.items()],
        request.approvals_required,
        _said(ballot),
    )
    same = mine is not None and _is_repeated(mine, ballot)
    repeats = (
        same and ballot.voter.refusal is None and request.status is VERDICTS[ballot.verdict].outcome.status
    )
    if repeats and not _shows_nothing(request, ballot):
        return VoteOutcome(request.status, count.approvals, count.needed, repeated=True)
    if (refused := _refusal(request, ballot)) is not None:
        audit.append(tx, request.head, _refusal_entry(ballot, refused.code))
        return refused
    if any(each.person not in ballot.standings for each in _others(request, ballot)):
        return None
    if same and count.outcome is None:
        return VoteOutcome(RequestStatus.WAITING, count.approvals, count.needed, repeated=True)
    places.bind(tx, request.place, ballot.place)
    # A vote is cast once; repeated, it may still decide, because another voter's right has come back. With a reason,
    # which goes into the decision, it is cast again: whoever gave it must be on record as its author.
    cast = [] if same and ballot.reason is None else [(request.head, _cast(tx, request, mine, ballot))]
    if count.outcome is None:
        _keep_open(tx, request, count, ballot, cast)
    else:
        alike = tuple(each for each, said in counted.items() if said == (ballot.verdict, _said(ballot)))
        _decide(tx, request, count.outcome, ballot, alike, cast, claimant)
    return VoteOutcome(count.outcome or RequestStatus.WAITING, count.approvals, count.needed)


def _shows_nothing(request: ReviewedRequest, ballot: Ballot) -> bool:
    """The card cannot show the outcome, so the answer says it."""
    place = ballot.place
    return place is not None and request.place is not None and request.place.is_closed_at(place)


def _counted(request: ReviewedRequest, ballot: Ballot) -> dict[Person, tuple[Verdict, str | None]]:
    """Verdicts and answers, in the order of the votes.

    Those of people who lost the right do not count; a repeated vote recounts.
    """
    me, counted = ballot.voter.person, dict[Person, tuple[Verdict, str | None]]()
    for vote in request.votes:
        if _is_repeated(vote, ballot) or (vote.person != me and _still_counts(request, ballot, vote)):
            counted[vote.person] = vote.verdict, vote.answer
    return {**counted, me: (ballot.verdict, _said(ballot))}


def _said(ballot: Ballot) -> str | None:
    return ballot.answer.digest.hex() if ballot.answer else None


def _is_repeated(vote: StoredVote, ballot: Ballot) -> bool:
    mine = (ballot.voter.person, ballot.verdict, ballot.revision, _said(ballot))
    return (vote.person, vote.verdict, vote.revision, vote.answer) == mine


def _others(request: ReviewedRequest, ballot: Ballot) -> list[StoredVote]:
    mine = ballot.voter.person
    return [each for each in request.votes if each.person != mine and each.revision == request.revision]


def _still_counts(request: ReviewedRequest, ballot: Ballot, vote: StoredVote) -> bool:
    standing = ballot.standings.get(vote.person)
    if standing is None or vote.revision != request.revision:
        return False
    return eligibility.reviewer_refusal(request, standing, vote.verdict) is None


def _refusal(request: ReviewedRequest, ballot: Ballot) -> Refused | None:
    refused = places.refusal(
        request.place, ballot.place, ballot.voter.person, request
    ) or eligibility.vote_refusal(request, ballot.voter, ballot.verdict, ballot.revision, request.head.at)
    if refused is not None:
        return refused
    if (unfit := _unfit(request.answer_form, ballot)) is not None:
        return unfit
    if ballot.together is not None:
        if together.obstacle(request) is not None:
            return Refused(Refusal.NOT_TOGETHER)
        if ballot.together.digest != request.digest:
            return Refused(Refusal.STALE_REVISION)
    if _lacks_reason(request, ballot):
        return Refused(Refusal.REASON_REQUIRED)
    if not request.terms_stand:
        return Refused(Refusal.TERMS_ALTERED)
    return Refused(Refusal.DENIED_NOW, because=ballot.denied) if ballot.denied else None


def _unfit(form: AnswerForm | None, ballot: Ballot) -> Refused | None:
    """A verdict that such a request does not take, or an answer that its form does not."""
    if ballot.verdict not in verdicts_on(form):
        return Refused(Refusal.OTHER_VERDICT)
    if ballot.verdict is not Verdict.ANSWER or form is None:
        return None
    try:
        read = form.read(ballot.answer.value if ballot.answer else None)
    except UnfitAnswer as unfit:
        return Refused(Refusal.UNFIT_ANSWER, because=str(unfit))
    return None if read == ballot.answer else Refused(Refusal.UNFIT_ANSWER)


def _cast(tx: Transaction, request: ReviewedRequest, mine: StoredVote | None, ballot: Ballot) -> AuditEntry:
    requests.cast_vote(
        tx,
        requests.Vote(
            request.id,
            request.revision,
            ballot.voter.person,
            ballot.verdict,
            ballot.reason,
            ballot.path,
            mine.id if mine else None,
            request.head.at,
            _recorded(ballot),
            ballot.together.id if ballot.together else None,
        ),
    )
    return AuditEntry(AuditKind.VOTE_CAST, audit.actor(ballot.voter.person), _vote_detail(ballot))


def _keep_open(
    tx: Transaction,
    request: ReviewedRequest,
    count: Tally,
    ballot: Ballot,
    cast: Sequence[tuple[ChainHead, AuditEntry]],
) -> None:
    person = ballot.voter.person
    audit.append_all(tx, cast)
    facts = {"needed": count.needed, "verdict": ballot.verdict.value, "reason": ballot.reason}
    together = sent_together(_others_sent(ballot))
    line = outbox.request_line(request.destination, request.id, "voted", person, **facts, **together)
    outbox.enqueue(tx, [outbox.card(request.destination, request.id), line])
    if request.run_id is not None and not says_nothing(ballot.reason):
        by = {"team": person.team_id, "user": person.user_id}
        decisions.add_run_lines(tx, {request.id: {"line": "voted", **by, **facts}})


def _decide(
    tx: Transaction,
    request: ReviewedRequest,
    outcome: RequestStatus,
    ballot: Ballot,
    counted: tuple[Person, ...],
    cast: Sequence[tuple[ChainHead, AuditEntry]],
    claimant: Claimant | None,
) -> None:
    approved = outcome is RequestStatus.APPROVED
    several = outcome is not RequestStatus.REJECTED and len(counted) > 1
    decided = RequestEnding(
        request,
        request.digest,
        outcome,
        request.head,
        ballot.voter.person,
        ballot.reason,
        background=request.background,
        run_channel=request.run_channel,
        webhooks=request.webhooks,
        approved_by=counted if several else (),
        answer=ballot.answer if outcome is RequestStatus.ANSWERED else None,
        answer_order=request.answer_form.order if request.answer_form else (),
        others=_others_sent(ballot),
    )
    if claimant and request.call and approved:
        _decide_and_claim(tx, request.call, decided, cast, claimant)
    else:
        end_requests(tx, [decided], earlier=cast)


def _decide_and_claim(
    tx: Transaction,
    call: ClaimableCall,
    decided: RequestEnding,
    cast: Sequence[tuple[ChainHead, AuditEntry]],
    claimant: Claimant,
) -> None:
    """One COMMIT for both, so that the tool runs without another look; what may not be claimed becomes ready."""
    action = attempts.approved_action(
        call.action, call.digest_decided, decided.digest, terms_stand=call.terms_stand
    )
    terms = claimant.judge(call, action) if action else None
    if action is None or terms is None:
        end_requests(tx, [decided], earlier=cast)
        return
    later = [(decided.head, attempts.claimed_entry(call, action, terms))]
    end_requests(tx, [replace(decided, claimed=True)], earlier=cast, later=later)
    limits.reserve(tx, terms.uses, call.id)
    claim = attempts.begin(tx, call, action, terms, decided.head.at)
    runs.work_again(tx, call.run_id)
    tx.begin_after_commit(partial(claimant.begin, claim))


def _others_sent(ballot: Ballot) -> int:
    return ballot.together.others if ballot.together else 0


def _recorded(ballot: Ballot) -> AnswerValue | None:
    """The answer as it is kept. The agent reads a reason beside it, too, so with one it has the person's own words."""
    said = ballot.answer
    # Even if people would see nothing of the reason.
    return replace(said, own_words=said.own_words or ballot.reason is not None) if said else None


def _vote_detail(ballot: Ballot) -> dict[str, object]:
    detail: dict[str, object] = {
        "verdict": ballot.verdict.value,
        "revision": ballot.revision,
        "path": ballot.path,
    }
    if said := _recorded(ballot):
        detail |= {"answer": said.digest.hex(), "own_words": said.own_words}
    if ballot.together:
        detail["together"] = str(ballot.together.id)
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
    """``who``: a person, or a program's principal."""
    async with db.transaction() as tx:
        if await request_locks.lock(tx, request_id) is None:
            return
        subject = request_subject(request_id)
        detail: dict[str, object] = {"refusal": refusal.value, "revision": revision, "path": path}
        detail |= {"principal": principal} if principal else {}
        actor = who if isinstance(who, str) else audit.actor(who)
        await audit.record(tx, subject, kind, actor, detail)

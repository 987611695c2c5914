"""Who may act on a request or a run, and why not. In doubt they may not.

Functions return a refusal or ``None``. Exclusions are stored when a request opens; an edit adds its editor.
Requesters, key owners and instructors may neither vote, edit nor settle; whoever shaped the action otherwise, by own
words or an edit, may not approve, retry or allow similar calls. `LIFTED_BY` names the policy key of each exclusion.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Protocol

from agent.domain.errors import Refusal, Refused
from agent.domain.people import CHANNEL, Exclusion, Involvement, Standing, deciders
from agent.domain.request import RequestStatus, Verdict
from agent.domain.rules import Rule
from signoff.formats import enumerated
from signoff.values import Person

_REFUSALS = {
    Involvement.REQUESTER: Refusal.SELF_REVIEW,
    Involvement.KEY_OWNER: Refusal.SELF_REVIEW,
    Involvement.INSTRUCTOR: Refusal.INSTRUCTED,
    Involvement.ADVISER: Refusal.ADVISED,
    Involvement.EDITOR: Refusal.EDITOR_ALONE,
    Involvement.EARLIER_EDITOR: Refusal.EDITED_EARLIER,
}
_RANKS = {why: rank for rank, why in enumerate(Involvement)}
_MAY_NOT_APPROVE = (Involvement.ADVISER, Involvement.EDITOR, Involvement.EARLIER_EDITOR)
"""All others exclude from every reviewer's act."""
LIFTED_BY: Mapping[Involvement, tuple[str, bool]] = {
    Involvement.REQUESTER: ("prevent_self_review", False),
    Involvement.KEY_OWNER: ("prevent_self_review", False),
    Involvement.INSTRUCTOR: ("prevent_self_review", False),
    Involvement.ADVISER: ("adviser_may_approve", True),
    Involvement.EDITOR: ("editor_may_approve", True),
    Involvement.EARLIER_EDITOR: ("editor_may_approve", True),
}
"""The checkpoint's key, and its value, with which the exclusion does not apply."""


class Reviewed(Protocol):
    """A request or attempt that reviewers act on: who may, and whom their own part in it excludes."""

    @property
    def approvers(self) -> tuple[str, ...]: ...
    @property
    def excluded(self) -> tuple[Exclusion, ...]: ...


class Reviewable(Reviewed, Protocol):
    """A request that can be voted on: its state, revision and deadline, and who decided it if anybody did."""

    @property
    def status(self) -> RequestStatus: ...
    @property
    def revision(self) -> int: ...
    @property
    def expires_at(self) -> datetime: ...
    @property
    def decided_at(self) -> datetime | None: ...
    @property
    def decided_by(self) -> Person | None: ...
    @property
    def approved_by(self) -> tuple[Person, ...]: ...


class Editable(Reviewable, Protocol):
    """A request that can be voted on and, if its checkpoint allows it, edited."""

    @property
    def allow_edit(self) -> bool: ...


class Doubtful(Reviewed, Protocol):
    """A call whose outcome is in doubt, with the facts that decide who may settle it."""

    @property
    def asked(self) -> bool: ...  # people were asked about the call
    @property
    def requester(self) -> Person | None: ...


class WaitingRequest(Protocol):
    """A request that a run waits for, whose reviewers may therefore cancel the run."""

    @property
    def approvers(self) -> tuple[str, ...]: ...
    @property
    def channel_id(self) -> str: ...


def exclusions(involved: Iterable[Exclusion], rule: Rule) -> tuple[Exclusion, ...]:
    """Only the strongest involvement of a person counts."""
    found: dict[Person, Exclusion] = {}
    for each in sorted(involved, key=lambda each: _RANKS[each.why]):
        key, lifted = LIFTED_BY[each.why]
        if getattr(rule, key) is not lifted:
            found.setdefault(each.person, each)
    return tuple(found.values())


def with_editor(
    excluded: tuple[Exclusion, ...], editor: Person, *, editor_may_approve: bool
) -> tuple[Exclusion, ...]:
    """Return the exclusions plus the editor's own, unless editors may approve or are already excluded."""
    if editor_may_approve or exclusion_of(excluded, editor) is not None:
        return excluded
    return (*excluded, Exclusion(editor, Involvement.EDITOR))


def exclusion_of(excluded: Iterable[Exclusion], person: Person) -> Exclusion | None:
    """Return a person's exclusion from a request, or None if the person is not excluded."""
    return next((each for each in excluded if each.person == person), None)


def reviewer_refusal(request: Reviewed, who: Standing, verdict: Verdict | None = None) -> Refusal | None:
    """Return why a person may not act as reviewer, or None if allowed.

    Advisers and editors are refused only where the verdict is to approve.
    """
    if who.refusal is not None:
        return who.refusal
    if not request.approvers:
        return Refusal.NO_REVIEWERS
    if who.roles.isdisjoint(request.approvers):
        return Refusal.NOT_A_REVIEWER
    mine = exclusion_of(request.excluded, who.person)
    if mine is None or (mine.why in _MAY_NOT_APPROVE and verdict is not Verdict.APPROVE):
        return None
    return _REFUSALS[mine.why]


def vote_refusal(
    request: Reviewable, voter: Standing, verdict: Verdict, revision: int, now: datetime
) -> Refused | None:
    """``now`` is database time."""
    if (refused := _review_refusal(request, voter, revision, now)) is not None:
        return refused
    refusal = reviewer_refusal(request, voter, verdict)
    return Refused(refusal) if refusal else None


def state_refusal(request: Reviewable, revision: int) -> Refused | None:
    """The deadline is not checked."""
    match request.status:
        case RequestStatus.CANCELLED:
            return Refused(Refusal.WITHDRAWN)
        case RequestStatus.EXPIRED:
            return Refused(Refusal.EXPIRED, at=request.expires_at)
        case RequestStatus.WAITING:
            return None if revision == request.revision else Refused(Refusal.STALE_REVISION)
        case outcome:
            people, at = deciders(request.decided_by, request.approved_by), request.decided_at
            by = "".join(enumerated(list(map(str, people))))
            return Refused(Refusal.ALREADY_DECIDED, outcome=outcome.value, by=by, at=at)


def edit_refusal(request: Editable, editor: Standing, revision: int, now: datetime) -> Refused | None:
    """Return why a person may not edit this revision at this database time, or None if allowed."""
    if (refused := _review_refusal(request, editor, revision, now)) is not None:
        return refused
    return None if request.allow_edit else Refused(Refusal.EDIT_NOT_ALLOWED)


def settlement_refusal(
    doubt: Doubtful, settler: Standing, *, retry: bool, administrator: bool = False
) -> Refusal | None:
    """Without a request, the requester or an administrator may settle."""
    if settler.refusal is not None:
        return settler.refusal
    if not doubt.asked:
        own = settler.person == doubt.requester
        return None if own or administrator else Refusal.NOT_YOURS_TO_SETTLE
    return reviewer_refusal(doubt, settler, Verdict.APPROVE if retry else None)


def asking_again_refusal(requester: Person | None, by: Standing) -> Refusal | None:
    """Return why a person may not ask again after an expiry, or None for the requester, who alone may."""
    return by.refusal or (None if by.person == requester else Refusal.NOT_YOURS_TO_ASK)


def cancel_refusal(
    requester: Person | None, waiting: Iterable[WaitingRequest], by: Standing, channels: Collection[str]
) -> Refusal | None:
    """The requester may cancel, and reviewers of requests that the run waits for."""
    if by.refusal is not None or by.person == requester:
        return by.refusal
    roles = by.roles - {CHANNEL}  # membership counts only for the request's channel
    reviews = any(
        roles.intersection(each.approvers) or (CHANNEL in each.approvers and each.channel_id in channels)
        for each in waiting
    )
    return None if reviews else Refusal.NOT_YOUR_RUN


def resume_refusal(requester: Person | None, by: Standing, *, administrator: bool) -> Refusal | None:
    """Return why a person may not resume a run, or None for its requester and for administrators."""
    if by.refusal is not None:
        return by.refusal
    return None if by.person == requester or administrator else Refusal.NOT_YOURS_TO_RESUME


def revocation_refusal(approvers: Collection[str], by: Standing, *, administrator: bool) -> Refusal | None:
    """Reviewers may revoke, even if involved in a call."""
    if by.refusal is not None:
        return by.refusal
    return None if administrator or not by.roles.isdisjoint(approvers) else Refusal.NOT_YOURS_TO_REVOKE


def _review_refusal(request: Reviewable, who: Standing, revision: int, now: datetime) -> Refused | None:
    if (refusal := reviewer_refusal(request, who)) is not None:
        return Refused(refusal)
    late = request.status is RequestStatus.WAITING and request.expires_at <= now
    return Refused(Refusal.EXPIRED, at=request.expires_at) if late else state_refusal(request, revision)

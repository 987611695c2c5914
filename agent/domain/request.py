"""A request to people: ``waiting -> approved | answered | rejected | expired | cancelled``, final."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from agent.domain.answers import AnswerValue
from agent.domain.people import Standing
from signoff.values import Person

API = "api"
"""`source` of a program's request."""

EXTERNAL = "external"
"""A program's default action; the version of actions executed outside."""

ASK = "ask"
"""A function agent's question, as a tool."""

FactValues = Mapping[str, Any]


class RequestStatus(StrEnum):
    """The state of a request. Expired is not rejected, and callers can tell them apart."""

    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    ANSWERED = "answered"
    """A question that wants more than yes or no. It authorises nothing."""

    @property
    def word(self) -> str:
        """The word for people: requests are withdrawn; only runs are cancelled."""
        return "withdrawn" if self is RequestStatus.CANCELLED else self.value


class Verdict(StrEnum):
    """A reviewer's verdict on one revision."""

    APPROVE = "approve"
    REJECT = "reject"
    ANSWER = "answer"
    """The only other one of a question that wants more than yes or no."""


class ExecutionStatus(StrEnum):
    """An attempt at a call. ``in_doubt``: it is unknown whether the effect happened."""

    CLAIMED = "claimed"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    IN_DOUBT = "in_doubt"


class ApprovalState(StrEnum):
    """What became of an approval, in words for people."""

    VOID = "void"
    LAPSED = "lapsed"
    HANDED_OVER = "handed over"
    NOT_RUN = "not run"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    NOTHING_DONE = "nothing was done"
    RETRYING = "failed, will be retried"
    IN_DOUBT = "in doubt"
    MARKED_DONE = "marked as done"
    RETRY_WANTED = "retry requested"


def approval_state(
    status: RequestStatus,
    *,
    voided: bool,
    lapsed: bool,
    handed_over: bool,
    stopped: bool,
    execution: ExecutionStatus | None,
    settled_as: str | None,
    retrying: bool,
    nothing_done: bool,
) -> ApprovalState | None:
    """``None``: nothing yet, or not approved. ``execution``: the latest attempt."""
    if status is not RequestStatus.APPROVED:
        return None
    if voided:
        return ApprovalState.VOID
    if lapsed:
        return ApprovalState.HANDED_OVER if handed_over else ApprovalState.LAPSED
    if execution is None:
        return ApprovalState.NOT_RUN if stopped else None
    if execution is ExecutionStatus.IN_DOUBT and settled_as in _SETTLED:
        return _SETTLED[settled_as]
    if retrying:
        return ApprovalState.RETRYING
    return ApprovalState.NOTHING_DONE if nothing_done else EXECUTED[execution]


_SETTLED = {"done": ApprovalState.MARKED_DONE, "retry": ApprovalState.RETRY_WANTED}
EXECUTED = {
    ExecutionStatus.CLAIMED: ApprovalState.RUNNING,
    ExecutionStatus.SUCCEEDED: ApprovalState.DONE,
    ExecutionStatus.FAILED: ApprovalState.FAILED,
    ExecutionStatus.IN_DOUBT: ApprovalState.IN_DOUBT,
}


@dataclass(frozen=True, slots=True)
class Place:
    """A click's origin; must match the stored card (nonce, channel and message)."""

    nonce: str
    surface: str
    channel_id: str | None = None
    message_ts: str | None = None


@dataclass(frozen=True, slots=True)
class StoredPlace:
    """``person`` owns a personal place (App Home, modal). ``closed``: messages that Slack lets nobody change."""

    surface: str
    person: Person | None
    channel_id: str | None
    message_ts: str | None
    closed: tuple[str, ...] = ()

    def fits(self, place: Place, person: Person) -> bool:
        """An unsaved ``ts`` matches every message of the channel, except a closed one."""
        if self.surface != place.surface:
            return False
        if self.surface != "channel":
            return self.person == person
        if self.channel_id != place.channel_id:
            return False
        return place.message_ts == self.message_ts or (
            self.message_ts is None and not self.is_closed_at(place)
        )

    def is_closed_at(self, place: Place) -> bool:
        here = self.surface == place.surface and self.channel_id == place.channel_id
        return here and place.message_ts in self.closed


@dataclass(frozen=True, slots=True)
class Together:
    """One vote of a form that decides several requests.

    ``id``: of the form, from its opening on. ``digest``: SHA-256 of the action that it showed. ``others``: how many
    other requests were sent with it; their votes may still be on their way, or be refused.
    """

    id: UUID
    digest: bytes
    others: int = 0


@dataclass(frozen=True, slots=True)
class Electorate:
    """Whose rights a vote depends on: the reviewers of a request, its voter and those whose votes are live."""

    team_id: str
    channel_id: str
    approvers: tuple[str, ...]
    voters: tuple[Person, ...]
    tool: str
    """Of the current revision: policy may deny it by now."""


Rights = Callable[[Electorate], Mapping[Person, Standing] | None]
"""The standings of all voters, if they are known without a look-up; ``None``: somebody must be looked up."""


@dataclass(frozen=True, slots=True)
class Ballot:
    """A vote as it arrives at the use case.

    ``standings``: of the voter and all live voters, since votes of those who lost the right no longer count.
    ``path``: ``slack_button``, ``api`` …. ``place``: None without a card. ``principal``: the key that carried the
    vote. ``tool``: of the action, if known. ``denied``: why policy denies the action now. A ``reason`` loses the blanks
    around it, and of blanks alone it is None.
    """

    request_id: UUID
    revision: int
    verdict: Verdict
    voter: Standing
    standings: Mapping[Person, Standing]
    path: str
    reason: str | None = None
    place: Place | None = None
    principal: str | None = None
    tool: str | None = None
    denied: str | None = None
    answer: AnswerValue | None = None
    """Of the verdict `answer`."""
    together: Together | None = None
    """Set if the form decides several requests."""
    rights: Rights | None = None
    """Asked under the request's lock, if set, for the standings and the voter's own: neither has been looked up."""
    form_asks_reason: bool = False
    """Whoever gave no reason, where one is needed, gets a form that asks for it: nothing was refused. Only cards posted
    before their Approve opened that form at once have such a button."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", (self.reason or "").strip() or None)

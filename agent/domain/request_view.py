"""What may be shown of a request: a pure copy of stored facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from agent.domain.ancestors import ancestor_names
from agent.domain.facts import FactsSource
from agent.domain.limits import LimitView
from agent.domain.people import Exclusion
from agent.domain.request import ExecutionStatus, RequestStatus, Verdict
from signoff.values import Action, Person, Risk

ANYONE = "anyone"
"""Stands for the requester where a grant allows calls on behalf of any."""


@dataclass(frozen=True, slots=True)
class VoteView:
    """A live vote as shown to people."""

    person: Person
    verdict: Verdict
    reason: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class DecisionView:
    """The one outcome of a request; ``person`` is ``None`` for expiry and withdrawal by the system."""

    outcome: RequestStatus
    person: Person | None
    reason: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class ExecutionView:
    """The latest attempt to run what was approved, and a person's settlement of it, if any."""

    id: UUID
    attempt: int
    status: ExecutionStatus
    started_at: datetime
    finished_at: datetime | None
    error: str | None
    settled_by: Person | None = None
    settled_as: str | None = None  # "retry" | "done"
    result: str | None = None
    retry_voters: tuple[Person, ...] = ()  # who wants it tried again, while they are too few
    retry_at: datetime | None = None  # it failed in passing, and the next attempt begins then

    @property
    def seconds(self) -> float | None:
        """How long it took, once it has ended."""
        return (self.finished_at - self.started_at).total_seconds() if self.finished_at else None

    @property
    def awaits_settlement(self) -> bool:
        """Whether it is in doubt and not settled yet."""
        return self.status is ExecutionStatus.IN_DOUBT and self.settled_as is None

    @property
    def reported_late(self) -> bool:
        """It succeeded, as its worker said when it had been in doubt; ``error`` is what was known then."""
        return self.status is ExecutionStatus.SUCCEEDED and self.error is not None


@dataclass(frozen=True, slots=True)
class Change:
    """One argument that a reviewer's edit changed; a key that was not there, or is gone, is ``None``."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class FollowUp:
    """The request that asks an expired one again: its id (None while nobody is asked) and its card's ``link``."""

    request_id: UUID | None = None
    channel_id: str | None = None
    message_ts: str | None = None
    link: str | None = None


@dataclass(frozen=True, slots=True)
class EarlierRejection:
    """The request in which people rejected the very same action, and its card's ``link``."""

    request_id: UUID
    person: Person | None
    at: datetime
    reason: str | None = None
    channel_id: str | None = None
    message_ts: str | None = None
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Behalf:
    """On whose behalf an action is asked for or allowed: ``anyone``, or a ``requester`` (None: no person in Slack)."""

    anyone: bool
    requester: Person | None = None

    @classmethod
    def read(cls, named: str | None) -> Behalf:
        """From the ``requester`` among the arguments of the grant's action."""
        team, _, user = (named or "").partition("/")
        return cls(named == ANYONE, Person(team, user) if user else None)


@dataclass(frozen=True, slots=True)
class GrantView:
    """What has become of a grant, which people gave by approving its request."""

    behalf: Behalf
    uses: int
    max_uses: int
    used_sum: Decimal
    max_sum: Decimal | None
    until: datetime
    ended_at: datetime | None = None
    ended_by: str | None = None  # as the record names who did it
    ended_because: str | None = None


@dataclass(frozen=True, slots=True)
class RequestView:
    """Everything that a card, a page or an API answer may show of a request: a pure copy of stored facts."""

    id: UUID
    status: RequestStatus
    revision: int
    action: Action
    digest: bytes
    facts: Mapping[str, Any] | None
    previous_facts: Mapping[str, Any] | None  # what an earlier, voided approval was shown
    description: str
    rationale: str | None
    agent: str
    agent_version: str
    run_id: UUID | None
    source: str
    requester: Person | None
    requester_asserted: str
    checkpoint_id: str
    risk: Risk
    approvers: tuple[str, ...]
    notify: tuple[str, ...]
    approvals_required: int
    prevent_self_review: bool
    team_id: str
    channel_id: str
    created_at: datetime
    expires_at: datetime
    votes: tuple[VoteView, ...] = ()
    decision: DecisionView | None = None
    execution: ExecutionView | None = None
    voided: bool = False  # approved, but what was shown changed before execution, or it was `outdated`
    outdated: bool = False  # voided because its turn came later than `execute_within` after the decision
    stopped: bool = False  # approved, but its run ended before the call began
    place_nonce: str = ""  # nonce of the place this view is rendered for
    message_ts: str | None = None
    run_channel_id: str | None = None
    run_thread_ts: str | None = None
    link: str | None = None  # the checkpoint's link_template, rendered
    excluded: tuple[Exclusion, ...] = ()  # whose approval does not count
    allow_edit: bool = False
    editor_may_approve: bool = False  # else the approvals of all its editors do not count
    editor: Person | None = None  # who made this revision by an edit
    changes: tuple[Change, ...] = ()  # what that edit changed
    reason_required: frozenset[str] = frozenset()  # of "approve", "reject"
    reject_reasons: tuple[str, ...] = ()
    redact: tuple[str, ...] = ()  # names or dotted paths of arguments and facts that nobody is shown
    email_facts: tuple[str, ...] = ()  # names or dotted paths of the facts that an e-mail carries
    allow_grants: bool = False  # whoever approves it may allow calls like it in advance
    grant_free: tuple[tuple[str, str], ...] = ()  # the texts that a grant may leave open, with their patterns
    grant: GrantView | None = None  # of a request that gives one
    escalated: bool = False
    paused_by: str | None = None  # who stopped its agent, or one above it: nothing of it begins meanwhile
    paused_agent: str | None = None  # which of these that stop names; None: every agent
    asked_again: FollowUp | None = None  # expired, and its requester had the same asked once more
    rejected_before: EarlierRejection | None = None  # as the action was first asked, if policy shows that
    principal: str = "run"  # who opened it: a run's call, or "key:<name>"
    client_id: str = ""  # the opener's own name for it
    lapse_at: datetime | None = None  # approved for an executor outside: claimed before then, or never
    lapsed_at: datetime | None = None
    executor: str | None = None  # the key of the program that carries out a call of ours, "*" for any
    claim_until: datetime | None = None  # approved, and that program may claim it until then
    handed_over_at: datetime | None = None  # its asker has read that it is approved, and may have acted on it
    context: Mapping[str, Any] = field(default_factory=dict)  # task, transcript, earlier_calls
    facts_source: FactsSource | None = (
        None  # who told or looked up the facts; None: the tool itself, or nobody
    )
    facts_at: datetime | None = None  # when they were told or looked up
    erased_at: datetime | None = None  # arguments, facts and context are gone; the description says so
    recorded: int = 0  # how many things are on record about it: a greater number after every change
    limits: tuple[LimitView, ...] = ()  # on its action, as they stood when people were asked
    above: tuple[str, ...] = ()  # the agents that handed the task down to this one, the first one first
    label: str | None = None  # of its run

    @property
    def needs_people(self) -> bool:
        """Whether its card needs an answer: a decision, or the settlement of its execution."""
        in_doubt = self.execution is not None and self.execution.awaits_settlement
        return self.status is RequestStatus.WAITING or in_doubt

    @property
    def held_up(self) -> bool:
        """Whether a stop keeps it from beginning now, or would once it is approved."""
        begun = self.execution is not None and self.execution.status is not ExecutionStatus.IN_DOUBT
        if self.paused_by is None or self.voided or self.stopped or begun:
            return False
        return self.status in (RequestStatus.WAITING, RequestStatus.APPROVED)

    @property
    def decided_by(self) -> Person | None:
        return self.decision.person if self.decision else None

    @property
    def decided_at(self) -> datetime | None:
        return self.decision.at if self.decision else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What those who approved it wrote, oldest first; nothing unless it is approved."""
        if self.status is not RequestStatus.APPROVED:
            return ()
        approvals = (vote for vote in self.votes if vote.verdict is Verdict.APPROVE)
        return tuple(vote.reason for vote in approvals if vote.reason and vote.reason.strip())

    @property
    def behalf(self) -> Behalf:
        """On whose behalf it is asked, or a grant allows calls."""
        return self.grant.behalf if self.grant else Behalf(anyone=False, requester=self.requester)

    @property
    def own_words_exclude(self) -> bool:
        """Whether a reviewer who decides in their own words may not approve what its run then proposes."""
        return self.run_id is not None and self.prevent_self_review and not self.editor_may_approve

    @property
    def chain(self) -> str:
        """Its agent, behind those that handed the task down, and its run's label: ``orders › refunds “EU”``."""
        return ancestor_names(self.above, self.agent, self.label)

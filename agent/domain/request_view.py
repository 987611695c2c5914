"""What may be shown of a request: a pure copy of stored facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from agent.domain.ancestors import ancestor_names
from agent.domain.answers import AnswerForm
from agent.domain.facts import FactsSource
from agent.domain.free_text import FreeText
from agent.domain.limits import Caller, LimitView
from agent.domain.people import Exclusion, deciders
from agent.domain.request import (
    API,
    ASK,
    EXTERNAL,
    ApprovalState,
    ExecutionStatus,
    RequestStatus,
    Verdict,
    approval_state,
)
from agent.domain.rules import DecideTogether, Rule
from agent.domain.tally import FOR
from agent.domain.verdicts import verdicts_on
from signoff.formats import Money
from signoff.values import Action, Person, Risk
from signoff.visible_text import says_nothing

_ASKED_WITH = {"question", "arguments", "risk", "timeout_seconds", "answer"}

ANYONE = "anyone"
"""In place of a grant's requester."""


@dataclass(frozen=True, slots=True)
class VoteView:
    """One reviewer's vote on a request, with its reason, as it may be shown."""

    person: Person
    verdict: Verdict
    reason: FreeText | None
    at: datetime
    answer: Any = None
    """The value of the verdict `answer`; None if erased."""
    answer_digest: str | None = None
    """Of equal answers it is equal, also once they are masked or erased."""
    together: UUID | None = None
    """The form of several requests that cast it."""
    others: int = 0
    """Other requests on which this person voted by the same form."""


@dataclass(frozen=True, slots=True)
class DecisionView:
    """``person`` is ``None`` for expiry, and withdrawal by the system.

    ``approved_by``: if several approvals counted, theirs, in the order of the votes.
    """

    outcome: RequestStatus
    person: Person | None
    reason: FreeText | None
    at: datetime
    approved_by: tuple[Person, ...] = ()

    @property
    def deciders(self) -> tuple[Person, ...]:
        return deciders(self.person, self.approved_by)


@dataclass(frozen=True, slots=True)
class ExecutionView:
    """One attempt at a request's action as it may be shown, with its result or error and its settlement."""

    id: UUID
    attempt: int
    status: ExecutionStatus
    started_at: datetime
    finished_at: datetime | None
    error: FreeText | None
    settled_by: Person | None = None
    settled_as: str | None = None  # "retry" | "done"
    result: FreeText | None = None
    retry_voters: tuple[Person, ...] = ()  # until there are enough
    retry_at: datetime | None = None  # failed temporarily
    nothing_done: bool = False  # it certainly had no effect
    not_stored: bool = False  # it ran, and ``result`` says why its own is missing

    @property
    def seconds(self) -> float | None:
        return (self.finished_at - self.started_at).total_seconds() if self.finished_at else None

    @property
    def awaits_settlement(self) -> bool:
        return self.status is ExecutionStatus.IN_DOUBT and self.settled_as is None

    @property
    def reported_late(self) -> bool:
        """Success was reported during the doubt; ``error`` is what was known before."""
        return self.status is ExecutionStatus.SUCCEEDED and self.error is not None


@dataclass(frozen=True, slots=True)
class Change:
    """A missing key is ``None``."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class FollowUp:
    """``request_id`` is None before people are asked."""

    request_id: UUID | None = None
    channel_id: str | None = None
    message_ts: str | None = None
    link: str | None = None


@dataclass(frozen=True, slots=True)
class EarlierRejection:
    """An earlier rejection of the same action, with its reason and where its card is."""

    request_id: UUID
    person: Person | None
    at: datetime
    reason: FreeText | None = None
    channel_id: str | None = None
    message_ts: str | None = None
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Behalf:
    """``requester`` None: no person in Slack."""

    anyone: bool
    requester: Person | None = None

    @classmethod
    def read(cls, named: str | None) -> Behalf:
        team, _, user = (named or "").partition("/")
        return cls(named == ANYONE, Person(team, user) if user else None)


@dataclass(frozen=True, slots=True)
class GrantView:
    """A grant's terms and use so far as they may be shown, with why it ended if it has."""

    behalf: Behalf
    uses: int
    max_uses: int
    used_sum: Decimal
    max_sum: Decimal | None
    until: datetime
    ended_at: datetime | None = None
    ended_by: str | None = None
    ended_because: str | None = None


@dataclass(frozen=True, slots=True)
class RequestView:
    """What a card, page or API answer may show of a request."""

    id: UUID
    status: RequestStatus
    revision: int
    action: Action
    digest: bytes
    facts: Mapping[str, Any] | None
    previous_facts: Mapping[str, Any] | None  # of a voided approval
    description: str
    rationale: FreeText | None
    agent: str
    agent_version: str
    run_id: UUID | None
    call_id: UUID
    source: str
    requester: Person | None
    requester_asserted: str
    rule: Rule  # that asked
    checkpoint_id: str
    risk: Risk
    approvers: tuple[str, ...]
    approvals_required: int
    team_id: str
    channel_id: str
    created_at: datetime
    expires_at: datetime
    votes: tuple[VoteView, ...] = ()
    decision: DecisionView | None = None
    execution: ExecutionView | None = None
    voided: bool = False  # facts changed before execution, or `outdated`
    outdated: bool = False  # `execute_within` passed before it could begin
    stopped: bool = False  # before the call began: its run ended, or no program could begin it
    place_nonce: str = ""  # where this view is drawn
    message_ts: str | None = None
    run_channel_id: str | None = None
    run_thread_ts: str | None = None
    link: str | None = None  # rendered link_template
    excluded: tuple[Exclusion, ...] = ()
    editor: Person | None = None
    changes: tuple[Change, ...] = ()
    grant: GrantView | None = None
    escalated: bool = False
    paused_by: str | None = None  # nothing of a paused agent or its descendants begins
    paused_agent: str | None = None  # None: every agent
    asked_again: FollowUp | None = None
    rejected_before: EarlierRejection | None = None  # as first proposed, if policy shows that
    principal: str = "run"  # a run's call, or "key:<name>"
    run_principal: str | None = None  # who started the run
    names_agent: bool = False  # its key names the agent itself
    client_id: str = ""  # the opener's own id
    lapse_at: datetime | None = None  # the program that executes it must claim it before
    lapsed_at: datetime | None = None
    executor: str | None = None  # the executing program, "*" for any
    handed_over_at: datetime | None = None  # the asker has read the approval, and may have acted
    context: Mapping[str, Any] = field(default_factory=dict)  # task, transcript, earlier_calls
    facts_source: FactsSource | None = None  # None: the tool itself, or none
    facts_at: datetime | None = None  # when sent or looked up
    erased_at: datetime | None = None  # content is erased, as the description says
    recorded: int = 0  # increases with every change
    limits: tuple[LimitView, ...] = ()  # as they were when people were asked
    above: tuple[str, ...] = ()  # delegating agents, root first
    label: FreeText | None = None
    answer_form: AnswerForm | None = None  # what it wants besides yes or no

    def money_in(self, root: str) -> Money:
        """Of `args` or `facts`."""
        return Money.declared(self.rule.money).below(root)

    @property
    def called(self) -> Callable[[str], str]:
        """What arguments and facts are called, no two alike."""
        return self.rule.called_in(self.action.arguments, self.facts)

    @property
    def allow_grants(self) -> bool:
        """Similar calls in advance; never critical ones."""
        return self.rule.allow_grants and self.rule.risk < Risk.CRITICAL

    @property
    def decide_together(self) -> DecideTogether:
        """Up to which risk one form may decide it with others."""
        return self.rule.decide_together

    @property
    def needs_people(self) -> bool:
        in_doubt = self.execution is not None and self.execution.awaits_settlement
        return self.status is RequestStatus.WAITING or in_doubt

    @property
    def is_question(self) -> bool:
        """Whether there is only a question to answer, and nothing to run."""
        if self.wants_answer:
            return True
        if self.source == API:
            return self.action.tool == EXTERNAL
        return self.action.tool == ASK and self.action.arguments.keys() == _ASKED_WITH

    @property
    def held_up(self) -> bool:
        """A pause keeps it from beginning, or would once approved."""
        begun = self.execution is not None and self.execution.status is not ExecutionStatus.IN_DOUBT
        if self.paused_by is None or self.voided or self.stopped or begun:
            return False
        return self.status in (RequestStatus.WAITING, RequestStatus.APPROVED)

    @property
    def standing(self) -> RequestStatus | ApprovalState:
        execution = self.execution
        became = approval_state(
            self.status,
            voided=self.voided,
            lapsed=self.lapsed_at is not None,
            handed_over=self.handed_over_at is not None,
            stopped=self.stopped,
            execution=execution.status if execution else None,
            settled_as=execution.settled_as if execution else None,
            retrying=execution is not None and execution.retry_at is not None,
            nothing_done=execution is not None and execution.nothing_done,
        )
        return became or self.status

    @property
    def decided_by(self) -> Person | None:
        return self.decision.person if self.decision else None

    @property
    def approved_by(self) -> tuple[Person, ...]:
        return self.decision.approved_by if self.decision else ()

    @property
    def decided_at(self) -> datetime | None:
        return self.decision.at if self.decision else None

    @property
    def wants_answer(self) -> bool:
        """More than yes or no."""
        return self.answer_form is not None

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Those that it takes."""
        return verdicts_on(self.answer_form)

    @property
    def answer(self) -> Any:
        """The value that people answered; None if they did not, or it is erased."""
        if self.status is not RequestStatus.ANSWERED or self.decision is None:
            return None
        by = self.decision.person
        return next((v.answer for v in self.votes if v.verdict is Verdict.ANSWER and v.person == by), None)

    @property
    def approvals(self) -> int:
        """Count the votes that approve, or those that give the most frequent answer."""
        given = Counter(vote.answer_digest for vote in self.votes if vote.verdict in FOR)
        return max(given.values(), default=0)

    @property
    def notes(self) -> tuple[str, ...]:
        """Reviewers' notes, oldest first; empty unless approved."""
        if self.status is not RequestStatus.APPROVED:
            return ()
        approvals = (vote for vote in self.votes if vote.verdict is Verdict.APPROVE)
        return tuple(vote.reason for vote in approvals if vote.reason and not says_nothing(vote.reason))

    @property
    def behalf(self) -> Behalf:
        """The requester, or that of a grant's calls."""
        return self.grant.behalf if self.grant else Behalf(anyone=False, requester=self.requester)

    @property
    def caller(self) -> Caller:
        started = self.run_principal or self.principal
        return Caller.of_principal(started, self.agent, self.requester, names_agent=self.names_agent)

    def own_words_exclude(self, person: Person | None) -> bool:
        """Whether this person, by adding their own words, loses the right to approve what is proposed next."""
        excluded = any(each.person == person for each in self.excluded)
        return self.grant is None and not self.rule.adviser_may_approve and not excluded

    @property
    def chain(self) -> str:
        """``orders › refunds “EU”``."""
        return ancestor_names(self.above, self.agent, self.label)

"""A run, its messages and its tool calls, as rows.

Run: ``working | pending_approval | completed | denied | failed | cancelled``; *runnable* with inputs that no model
turn has read.

Tool call: ``new`` (not evaluated) ``-> asked | ready | refused``; ``asked -> ready | refused``; ``ready -> claimed |
asked`` (again, when its facts have changed); ``claimed -> in_doubt | answered``; ``in_doubt -> ready | answered``
(settled); ``refused -> answered``; for another agent ``ready -> delegated -> answered``. A program's call is born
``asked``, and is ``answered`` as soon as nothing more can happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from agent.domain.ancestors import ancestor_names
from agent.domain.free_text import FreeText
from agent.domain.limits import Caller
from agent.domain.request import ExecutionStatus
from agent.domain.request_view import Change
from signoff.values import Person


class RunStatus(StrEnum):
    """The status of a run, as stored and shown; denied, failed and cancelled runs are over."""

    WORKING = "working"
    PENDING_APPROVAL = "pending_approval"
    COMPLETED = "completed"
    DENIED = "denied"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Whether only a person's new message wakes it."""
        return self in (RunStatus.DENIED, RunStatus.FAILED, RunStatus.CANCELLED)


class Hold(StrEnum):
    """What holds up a run that is otherwise at work: a pause, or a sleep of its own."""

    PAUSED = "paused"
    SLEEPING = "sleeping"


class CallState(StrEnum):
    """How far a tool call has come, from its proposal to its answer."""

    NEW = "new"
    ASKED = "asked"
    READY = "ready"
    REFUSED = "refused"
    CLAIMED = "claimed"
    DELEGATED = "delegated"
    IN_DOUBT = "in_doubt"
    ANSWERED = "answered"


class CallExecutor(StrEnum):
    """Who carries a call's action out."""

    HERE = "here"
    PROGRAM = "program"
    NONE = "none"  # there is only a question to answer


class CallOutcome(StrEnum):
    """What became of an action of a completed run."""

    OPEN = "open"
    DONE = "done"
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    LAPSED = "lapsed"
    NOT_RUN = "not_run"  # though approved
    FAILED = "failed"
    NOTHING_DONE = "nothing_done"  # the tool says so
    DENIED = "denied"  # by policy


class AnswerKind(StrEnum):
    """What became of a call: which kind of answer its run gets."""

    RESULT = "result"
    ERROR = "error"
    NOTHING_DONE = "nothing_done"  # an error that certainly had no effect; its text is the reason
    NOT_STORED = "not_stored"  # a step ran, and its text says why its result is missing
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    DENIED = "denied"  # by policy
    MALFORMED = "malformed"
    UNKNOWN_TOOL = "unknown_tool"
    STOPPED = "stopped"  # its text begins with the cause
    DONE_BY_PERSON = "done_by_person"  # settled as done
    ANSWERED = "answered"  # people answered its question; nothing ran


@dataclass(frozen=True, slots=True)
class NewRun:
    """``start_key`` makes a repeated start one run."""

    agent: str
    agent_version: str
    task: str
    principal: str
    requester: Person | None
    requester_asserted: str
    team_id: str | None
    channel_id: str | None
    thread_ts: str | None = None
    start_key: str | None = None
    session_id: str | None = None
    program_user: str | None = None
    parent_run_id: UUID | None = None
    parent_call_id: UUID | None = None
    api_key_id: UUID | None = None  # when ``principal`` is a key
    label: str | None = None


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The answer to a call: its kind, and the result or reason as text."""

    kind: AnswerKind
    text: str

    @property
    def told(self) -> str:
        return f"Nothing was done: {self.text}" if self.kind is AnswerKind.NOTHING_DONE else self.text


@dataclass(frozen=True, slots=True)
class RunLease:
    """The right to one model turn. Every write is conditional on ``epoch`` (fencing)."""

    run_id: UUID
    epoch: int
    worker: str


@dataclass(frozen=True, slots=True)
class Message:
    """Role ``note``: outcomes of background calls."""

    seq: int
    role: str
    turn: int
    text: str | None
    author: Person | None
    at: datetime


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A call as a model or function agent proposes it; its arguments are not parsed yet."""

    model_call_id: str
    tool: str
    raw_arguments: str
    place: str | None = None
    """A function agent's task and the call's number in it, if other calls are open beside it."""


@dataclass(frozen=True, slots=True)
class CallView:
    """``action`` is ``None`` for malformed arguments or an unknown tool."""

    id: UUID
    run_id: UUID
    turn: int
    index: int
    model_call_id: str
    tool: str
    raw_arguments: str
    state: CallState
    blocking: bool
    answer: CallAnswer | None
    request_id: UUID | None
    repeats: UUID | None  # an expired or voided call
    edited: tuple[Change, ...] = ()  # before approval
    notes: tuple[str, ...] = ()
    created_at: datetime | None = None
    answered_at: datetime | None = None
    place: str | None = None


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as it may be shown, including what it and its descendants wait for."""

    id: UUID
    agent: str
    agent_version: str
    task: FreeText
    status: RunStatus
    cause: FreeText | None  # "rejected", "expired", a model error, a limit …
    requester: Person | None
    parent_run_id: UUID | None
    channel_id: str | None
    thread_ts: str | None
    turn: int
    steps: int
    tokens: int
    awaiting_calls: int
    created_at: datetime
    updated_at: datetime
    answer: FreeText | None = None
    waiting: int = 0  # undecided requests
    in_doubt: int = 0
    sleeping_until: datetime | None = None  # shortest sleep, if nothing else is in progress
    waiting_below: tuple[str, ...] = ()  # one per undecided request of a descendant
    progress: FreeText | None = None
    label: FreeText | None = None  # by starter or agent
    erased_at: datetime | None = None
    principal: str = ""  # "slack:/agent", "key:ci" …
    session_id: str | None = None  # the program's
    program_user: FreeText | None = None  # the program's name for its user; nobody in Slack
    tokens_before: int = 0  # at the last resumption; the limit counts from there
    above: tuple[str, ...] = ()  # delegating agents, root first
    ancestor_ids: tuple[UUID, ...] = ()  # root first
    paused_by: str | None = None  # its own or an ancestor's pause
    paused_agent: str | None = None  # None: every agent
    call_outcomes: tuple[CallOutcome, ...] = ()  # of its and its descendants' actions, if completed

    @property
    def root_id(self) -> UUID:
        """The run whose id the trace has."""
        return self.ancestor_ids[0] if self.ancestor_ids else self.id

    @property
    def caller(self) -> Caller:
        return Caller.of_principal(self.principal, self.agent, self.requester)

    @property
    def chain(self) -> str:
        """``orders › refunds “EU”``."""
        return ancestor_names(self.above, self.agent, self.label)

    @property
    def asked(self) -> int:
        """Includes requests of descendants that it waits for."""
        return self.waiting + len(self.waiting_below)

    @property
    def askers_below(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.waiting_below))

    @property
    def shown(self) -> RunStatus:
        """`pending_approval` exactly while it or a descendant waits for a decision."""
        if self.status not in (RunStatus.WORKING, RunStatus.PENDING_APPROVAL, RunStatus.COMPLETED):
            return self.status
        if self.asked:
            return RunStatus.PENDING_APPROVAL
        return RunStatus.WORKING if self.status is RunStatus.PENDING_APPROVAL else self.status

    @property
    def held_up(self) -> bool:
        return self.paused_by is not None and self.status in (RunStatus.WORKING, RunStatus.PENDING_APPROVAL)

    @property
    def ending(self) -> CallOutcome | None:
        """What became of its actions, if none was done, or can still be."""
        if not self.call_outcomes or {CallOutcome.OPEN, CallOutcome.DONE}.intersection(self.call_outcomes):
            return None
        if CallOutcome.FAILED in self.call_outcomes:  # it may have had an effect
            return CallOutcome.FAILED
        return self.call_outcomes[0] if len(self.call_outcomes) == 1 else CallOutcome.NOTHING_DONE

    @property
    def standing(self) -> RunStatus | CallOutcome | ExecutionStatus | Hold:
        """`shown`, how it ended, or what holds it up; in doubt if only a settlement can continue it."""
        if self.in_doubt and self.shown in (RunStatus.WORKING, RunStatus.COMPLETED):
            return ExecutionStatus.IN_DOUBT
        if self.shown is not RunStatus.WORKING:
            return (self.ending or self.shown) if self.shown is RunStatus.COMPLETED else self.shown
        if self.held_up:
            return Hold.PAUSED
        return self.shown if self.sleeping_until is None else Hold.SLEEPING


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """``above``: delegating agents, root first."""

    request_id: UUID
    agent: str
    above: tuple[str, ...]
    revision: int
    description: str
    approvals: int
    approvals_required: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class RunLine:
    """``asked`` is limited, oldest first; ``run.asked`` counts all."""

    run: RunView
    asked: tuple[PendingQuestion, ...] = ()


@dataclass(frozen=True, slots=True)
class RunValues:
    """Values in its and descendants' calls, which its task or answer may repeat.

    Before there are calls, only `task` and the `policy` in force can say what is to be hidden.
    """

    arguments: tuple[str | bytes, ...] = ()
    facts: tuple[bytes, ...] = ()
    redact: tuple[str, ...] = ()
    task: str = ""
    unread: bool = False  # the model has not answered yet
    policy: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn of the model or function brought: text, proposed calls and the tokens used."""

    text: str | None
    calls: tuple[ProposedCall, ...]
    tokens: int
    heard: int  # when the transcript was read
    finish_reason: str = "stop"

    @property
    def branches(self) -> bool:
        """Whether calls are open in parallel, and each answer wakes the run."""
        return any(call.place is not None for call in self.calls)

"""What the end of a call means for its run: the answer, the state of the call, and whether the run goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from agent.domain.request import RequestStatus
from agent.domain.run import AnswerKind, CallAnswer, CallState, RunStatus
from agent.domain.verdicts import NOBODY_DECIDED, OUTCOMES, REFUSALS
from signoff.formats import after_colon

NOT_ALLOWED = frozenset({*map(AnswerKind, REFUSALS), AnswerKind.DENIED})
"""Answers to calls that neither people nor policy let begin."""


@dataclass(frozen=True, slots=True)
class EndedCall:
    """A call that ends, with what its run needs to know of it to be answered, woken or ended."""

    id: UUID
    tool: str
    raw_arguments: str
    blocking: bool
    request_id: UUID | None
    on_reject: str | None
    repeats: UUID | None
    """The expired call that its requester had asked again."""
    approval: str = ""
    """The reviewers' changes and notes."""

    def note(self, given: CallAnswer) -> str:
        about = f" (request {self.request_id})" if self.request_id else ""
        words = after_colon(given.text) if given.text else ""
        outcome = f"Outcome of {self.tool} {self.raw_arguments}{about}: {given.kind.value}{words}"
        return f"{outcome}\n{self.approval}" if self.approval else outcome


def call_after(outcome: RequestStatus) -> tuple[CallState, AnswerKind | None]:
    """Return the state of a call whose request has ended; if it is refused, also the kind of its answer."""
    if outcome is RequestStatus.ANSWERED:  # nothing is to run: the call gets its answer at once
        return CallState.REFUSED, AnswerKind.ANSWERED
    cause = OUTCOMES[outcome].cause
    return (CallState.READY, None) if cause is None else (CallState.REFUSED, AnswerKind(cause))


def stop_cause(kind: AnswerKind, on_reject: str | None) -> Literal["rejected", "expired"] | None:
    """Why the run ends; ``None``: the model gets the answer."""
    if on_reject != "stop":
        return None
    if kind is AnswerKind.REJECTED:
        return "rejected"
    return "expired" if kind is AnswerKind.EXPIRED else None


def note_wakes(status: RunStatus, call: EndedCall, given: CallAnswer) -> bool:
    """After a person's stop only a repeated call's outcome wakes the run."""
    if not status.over:
        return True
    if given.kind is AnswerKind.WITHDRAWN or stop_cause(given.kind, call.on_reject) is not None:
        return False
    return status is RunStatus.FAILED or (status is RunStatus.DENIED and call.repeats is not None)


def answer_of_ended_run(agent: str, status: RunStatus, cause: str, reason: str | None = None) -> CallAnswer:
    """Return the answer to a delegating call whose child run was cancelled, was denied or failed."""
    if status is RunStatus.CANCELLED:
        return CallAnswer(AnswerKind.STOPPED, f"withdrawn: the run of the agent {agent} was cancelled")
    if status is RunStatus.DENIED:
        said = f"{NOBODY_DECIDED} on" if cause == "expired" else "a person rejected"
        why = after_colon(reason) if reason else ""
        return CallAnswer(AnswerKind.STOPPED, f"{cause}: {said} what the agent {agent} asked for{why}")
    return CallAnswer(AnswerKind.ERROR, f"the agent {agent} failed: {cause}")

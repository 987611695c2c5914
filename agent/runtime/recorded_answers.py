"""Recorded answers as a function agent gets them: a result, a decision, or an exception."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from agent.domain.request import ASK
from agent.domain.request_view import RequestView
from agent.domain.run import AnswerKind, CallView
from agent.domain.verdicts import REFUSALS
from agent.runtime.agents import Delegate
from agent.runtime.step_tools import StepTool
from agent.runtime.steps import STOPS, Answer, Decision, StepFailed
from agent.runtime.tool import Tool
from signoff.errors import CollaborationError

_APPROVED = (AnswerKind.RESULT, AnswerKind.DONE_BY_PERSON)


def result(call: CallView, tool: Tool | None, asked: RequestView | None) -> Any:
    """Raises StepFailed and CollaborationError."""
    kind, words = _answer(call)
    if kind is AnswerKind.RESULT:
        return words if isinstance(tool, Delegate) else _value(call, words, tool)
    if kind is AnswerKind.DONE_BY_PERSON:
        return None
    if kind.value in REFUSALS:
        decision(call, asked).require()
    if kind is AnswerKind.STOPPED:
        raise _stopped(call, words)
    raise StepFailed(f"{call.tool}: {words or kind.value}")


def _value(call: CallView, words: str, tool: Tool | None) -> Any:
    try:
        return tool.read_result(words) if isinstance(tool, StepTool) else from_json(words)
    except ValueError:  # erased
        raise StepFailed(f"{call.tool}: {words}") from None


def decision(call: CallView, asked: RequestView | None) -> Decision[Any]:
    """Return the recorded decision on a call as a function agent gets it, approved or not."""
    kind, words = _answer(call)
    approved = kind in _APPROVED
    refused = kind.value if kind.value in REFUSALS else "denied"
    decided = asked.decision if asked else None
    return Decision(
        approved=approved,
        cause="approved" if approved else refused,
        reason=(decided.reason if decided else None) or (None if approved else words or None),
        reviewer=decided.person if decided else None,
        request_id=call.request_id,
        arguments=from_json(words) if kind is AnswerKind.RESULT else _asked_about(call),
        notes=asked.notes if asked else (),
    )


def answer(call: CallView, asked: RequestView | None) -> Answer[Any]:
    """Return the recorded answer to a question that wants more than yes or no."""
    kind, words = _answer(call)
    if kind is AnswerKind.MALFORMED:
        raise StepFailed(f"{call.tool}: {words}")
    answered = kind is AnswerKind.ANSWERED
    refused = kind.value if kind.value in REFUSALS else "denied"
    decided = asked.decision if asked else None
    return Answer(
        answered=answered,
        cause=kind.value if answered else refused,
        value=asked.answer if answered and asked else None,
        reason=(decided.reason if decided else None) or (None if answered else words or None),
        person=decided.person if decided else None,
        request_id=call.request_id,
    )


def _asked_about(call: CallView) -> Any:
    """The arguments of a question; a refused step has no question."""
    return from_json(call.raw_arguments).get("arguments") if call.tool == ASK else None


def _stopped(call: CallView, words: str) -> CollaborationError:
    """This function stops with the child agent, unless it handles the error."""
    cause, _, reason = words.partition(": ")
    return CollaborationError(
        STOPS.get(cause, "rejected"), request_id=f"below call {call.id}", reason=reason or None
    )


def _answer(call: CallView) -> tuple[AnswerKind, str]:
    if call.answer is None:
        raise AssertionError("a call has no answer yet")
    return call.answer.kind, call.answer.told

"""The words of every verdict and outcome, wherever people or programs read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from agent.domain.answers import AnswerForm
from agent.domain.request import RequestStatus, Verdict
from signoff.errors import Cause

NOBODY_DECIDED = "nobody decided in time"


@dataclass(frozen=True, slots=True)
class OutcomeWords:
    """``cause``: why a program's or an agent's action did not run. ``own_words``: what a person's words are called.

    ``told``: what the model reads of an action that did not run; ``{why}``: the reason, or that none was given.
    """

    status: RequestStatus
    title: str
    sign: str
    cause: Cause | None = None
    why: str = ""
    own_words: str = "Reason"
    told: str = ""

    @property
    def heading(self) -> str:
        return f"{self.sign} {self.title}"

    @property
    def consequence(self) -> str:
        """Sentences that end what follows the heading; empty where something may run."""
        if self.cause is None:
            return ""
        return (
            f". {self.why[:1].upper()}{self.why[1:]}; nothing was run." if self.why else ". Nothing was run."
        )


@dataclass(frozen=True, slots=True)
class VerdictWords:
    """``noun``: one such vote. ``reason_missing``: what a form says if `reason_required` has the verdict.

    ``effect``: of enough such votes; ``{then}``: of the approval. Both are for forms that ask for a reason alone.
    """

    button: str
    style: Literal["primary", "danger"]
    noun: str
    outcome: OutcomeWords
    reason_missing: str = ""
    effect: str = ""


OUTCOMES: Mapping[str, OutcomeWords] = {
    each.status: each
    for each in (
        OutcomeWords(RequestStatus.WAITING, "Waiting for review", "⏳"),
        OutcomeWords(RequestStatus.APPROVED, "Approved", "✅", own_words="Note"),
        OutcomeWords(
            RequestStatus.REJECTED,
            "Rejected",
            "❌",
            "rejected",
            told="A reviewer rejected this action; it was not executed. {why}",
        ),
        OutcomeWords(
            RequestStatus.EXPIRED,
            "Expired",
            "⌛",
            "expired",
            f"{NOBODY_DECIDED}, which is not a rejection",
            told="No decision arrived before the deadline (expired); this is not a rejection. "
            "The action was not executed.",
        ),
        OutcomeWords(
            RequestStatus.CANCELLED,
            "Withdrawn",
            "🚫",
            "withdrawn",
            told="The request was withdrawn. The action was not executed. {why}",
        ),
        OutcomeWords(RequestStatus.ANSWERED, "Answered", "💬"),
    )
}
ENDED = tuple(each for each in OUTCOMES.values() if each.status is not RequestStatus.WAITING)
REFUSALS: Mapping[str, OutcomeWords] = {each.cause: each for each in ENDED if each.cause is not None}
"""The outcomes after which nothing runs, by their causes."""
VERDICTS: Mapping[str, VerdictWords] = {
    Verdict.APPROVE: VerdictWords(
        "Approve",
        "primary",
        "approval",
        OUTCOMES[RequestStatus.APPROVED],
        "This checkpoint requires a note with an approval.",
        "Once enough people have approved, {then}.",
    ),
    Verdict.REJECT: VerdictWords(
        "Reject",
        "danger",
        "rejection",
        OUTCOMES[RequestStatus.REJECTED],
        "Choose a reason or write your own; one of them is required.",
        "Rejecting ends this request.",
    ),
    Verdict.ANSWER: VerdictWords(
        "Answer…",
        "primary",
        "answer",
        OUTCOMES[RequestStatus.ANSWERED],
    ),
}
ON_APPROVAL = (Verdict.APPROVE, Verdict.REJECT)
"""The verdicts on an action, or on a question that wants yes or no."""
_ON_QUESTION = (Verdict.ANSWER, Verdict.REJECT)
BY_PEOPLE = tuple(each.outcome.status for each in VERDICTS.values())
"""Outcomes that votes lead to; all others come without one."""


def verdicts_on(form: AnswerForm | None) -> tuple[Verdict, ...]:
    """Return the verdicts that a request takes; with a form it is a question that wants more than yes or no."""
    return ON_APPROVAL if form is None else _ON_QUESTION

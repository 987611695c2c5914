"""Which requests one form may decide together, each by a vote of its own, and how the record names such votes.

The id of a form is what its sender claims, so votes came together only if their form and their person are the same.
"""

from __future__ import annotations

from typing import Protocol

from agent.domain.answers import AnswerForm
from agent.domain.grants import GRANT
from agent.domain.rules import DecideTogether
from signoff.values import Risk

_UP_TO: dict[DecideTogether, Risk] = {"low": Risk.LOW, "medium": Risk.MEDIUM}


class Decidable(Protocol):
    """What says whether a request may be decided in one form with others."""

    @property
    def source(self) -> str: ...
    @property
    def risk(self) -> Risk: ...
    @property
    def decide_together(self) -> DecideTogether: ...
    @property
    def answer_form(self) -> AnswerForm | None: ...


def obstacle(request: Decidable) -> str | None:
    """Return why a request is decided on its own, in words that follow its title; None if it need not be."""
    if request.answer_form is not None:
        return "it wants an answer"
    if request.source == GRANT:
        return "it asks for a grant"
    most = _UP_TO.get(request.decide_together)
    if most is None:
        return "its checkpoint wants it decided on its own"
    return f"it has {request.risk.value} risk" if request.risk > most else None


def with_others(others: int) -> str:
    """Return how a vote came that was cast in one form with votes on so many other requests; empty if it came alone."""
    if others < 1:
        return ""
    return f"in one form with {others:,} {'other' if others == 1 else 'others'}"

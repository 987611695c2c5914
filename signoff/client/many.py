"""Several questions at once: people get them in one message, and each has its own decision."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from signoff.client.effects import Operation
from signoff.client.facts import FactsOrFunction
from signoff.client.operations import (
    MOST_AT_ONCE,
    PATIENCE,
    WaitLimit,
    as_judged,
    batch_of,
    concluded,
    decided_or_left,
    get,
    submit,
)
from signoff.client.reviews import Approval, Review
from signoff.durations import Duration
from signoff.errors import SignoffError


@dataclass(frozen=True, slots=True)
class ProposedAction:
    """One action among several that people are asked about at once; the fields mean what they mean to `submit`."""

    action: str | None
    arguments: Mapping[str, Any] | None = None
    description: str | None = None
    context: Any = None
    key: str | None = None
    requester: str | None = None
    agent: str | None = None
    rationale: str | None = None
    facts: FactsOrFunction = None


Submitted: TypeAlias = Review | Approval | Exception
"""A request, an approval that policy did not require, or why this question could not be asked."""

Concluded: TypeAlias = Approval | Exception
"""An approval, or what `ask` would have raised for this question."""


def submit_many(
    questions: Sequence[ProposedAction], *, session: str | None = None, patience: float = PATIENCE
) -> Operation[list[Submitted]]:
    """Ask people about at most 100 actions at once, without waiting; returns one result for each, in their order.

    Those of one checkpoint arrive in one message, where they can be decided together, each by itself. A question that
    cannot be asked does not hold up the others: its result is the exception. Questions with a ``key`` can be submitted
    again by a restarted process, as with `submit`. Raises ValueError for more than 100 questions.
    """
    if len(questions) > MOST_AT_ONCE:
        raise ValueError(f"at most {MOST_AT_ONCE} questions at once, not {len(questions)}")
    batch = batch_of(len(questions))
    until = time.monotonic() + patience
    results: list[Submitted] = []
    for each in questions:
        try:
            asked = yield from submit(
                each.action,
                each.arguments,
                description=each.description,
                context=each.context,
                key=each.key,
                requester=each.requester,
                agent=each.agent,
                rationale=each.rationale,
                session=session,
                facts=each.facts,
                patience=max(until - time.monotonic(), 1.0),
                batch=batch,
            )
        except (SignoffError, ValueError) as error:
            results.append(error)
        else:
            results.append(asked)
    return results


def ask_many(
    questions: Sequence[ProposedAction],
    *,
    timeout: Duration | WaitLimit | None = None,
    session: str | None = None,
) -> Operation[list[Concluded]]:
    """Ask people about at most 100 actions at once, and wait once for all; returns one result for each, in their order.

    A result is the approval, or the exception that `ask` would have raised: one rejection, expiry or failure does not
    hide the other decisions. ``timeout`` is that of the whole; what nobody has decided by then is withdrawn unless it
    has a key. Raises ValueError for more than 100 questions.
    """
    limit, began = WaitLimit.of(timeout), time.monotonic()
    submitted = yield from submit_many(questions, session=session, patience=max(limit.seconds, 1.0))
    results: list[Concluded] = []
    for question, asked in zip(questions, submitted, strict=True):
        if not isinstance(asked, Review):
            results.append(asked)
            continue
        try:
            # While one is waited for, the others are decided as well, perhaps until the time is over.
            review = (yield from get(asked.id)) if results and asked.status == "waiting" else asked
            if review.status == "waiting":
                review = yield from decided_or_left(review, limit, began, keep=question.key is not None)
            results.append(concluded(review, as_judged(question.arguments)))
        except (SignoffError, TimeoutError) as error:
            results.append(error)
    return results

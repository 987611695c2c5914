"""Several questions at once: people get them in one message, and each has its own decision."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from signoff.client.effects import HttpRequest, Operation
from signoff.client.facts import FactsOrFunction
from signoff.client.operations import (
    MOST_AT_ONCE,
    PATIENCE,
    Wait,
    WaitLimit,
    asked_of,
    body_of,
    concluded,
    decided_or_over,
    in_time,
)
from signoff.client.retries import send_with_retries
from signoff.client.reviews import Approval, Review
from signoff.durations import Duration
from signoff.errors import SignoffError


@dataclass(frozen=True, slots=True)
class ProposedAction:
    """One action among several that people are asked about at once; the fields mean what they mean to `ask`."""

    action: str | None
    arguments: Mapping[str, Any] | None = None
    description: str | None = None
    context: Any = None
    key: str | None = None
    requester: str | None = None
    agent: str | None = None
    rationale: str | None = None
    facts: FactsOrFunction = None
    timeout: Duration | WaitLimit | None = None


Submitted: TypeAlias = Review | Approval | Exception
"""A request, an approval that policy did not require, or why this question could not be asked."""

Concluded: TypeAlias = Approval | Exception
"""An approval, or what `ask` would have raised for this question."""

_Body: TypeAlias = dict[str, Any]


def submit_many(
    questions: Sequence[ProposedAction], *, session: str | None = None, patience: float = PATIENCE
) -> Operation[list[Submitted]]:
    """Ask people about at most 100 actions at once, without waiting; returns one result for each, in their order.

    Those of one checkpoint arrive in one message, where they can be decided together, each by itself. A question that
    cannot be asked does not hold up the others: its result is the exception. Questions with a ``key`` can be submitted
    again by a restarted process, as with `submit`. Raises ValueError for more than 100 questions.
    """
    bodies = yield from _bodies(questions, session)
    return (yield from _sent(bodies, [time.monotonic() + patience] * len(bodies)))


def ask_many(
    questions: Sequence[ProposedAction],
    *,
    timeout: Duration | WaitLimit | None = None,
    session: str | None = None,
) -> Operation[list[Concluded]]:
    """Ask people about at most 100 actions at once, and wait once for all; returns one result for each, in their order.

    A result is the approval, or the exception that `ask` would have raised: one rejection, expiry or failure does not
    hide the other decisions. ``timeout`` is that of each question without one of its own, from now on; what nobody has
    decided by then is withdrawn unless it has a key. Raises ValueError for more than 100 questions, and for a timeout
    that is no duration.
    """
    began = time.monotonic()
    limits = [WaitLimit.of(timeout if each.timeout is None else each.timeout) for each in questions]
    bodies = yield from _bodies(questions, session)
    asked = yield from _sent(bodies, [began + max(limit.seconds, 1.0) for limit in limits])
    results = {number: each for number, each in enumerate(asked) if not isinstance(each, Review)}
    waits = {
        number: Wait(each, limits[number], began)
        for number, each in enumerate(asked)
        if isinstance(each, Review)
    }
    while waits:
        broken: SignoffError | None = None
        try:
            if going_on := [each for each in waits.values() if each.goes_on]:
                yield from decided_or_over(going_on)
        except SignoffError as error:
            broken = error
        for number in [number for number, each in waits.items() if broken or not each.goes_on]:
            body = cast("_Body", bodies[number])
            results[number] = yield from _result(waits.pop(number), body, questions[number], broken)
    return [results[number] for number in range(len(questions))]


def _bodies(
    questions: Sequence[ProposedAction], session: str | None
) -> Operation[list[_Body | SignoffError | ValueError]]:
    """All facts are looked up before the first question is sent: they arrive together."""
    if len(questions) > MOST_AT_ONCE:
        raise ValueError(f"at most {MOST_AT_ONCE} questions at once, not {len(questions)}")
    bodies: list[_Body | SignoffError | ValueError] = []
    for each in questions:
        try:
            body = yield from body_of(
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
            )
        except (SignoffError, ValueError) as error:
            bodies.append(error)
        else:
            bodies.append(body)
    return bodies


def _sent(bodies: Sequence[_Body | Exception], deadlines: Sequence[float]) -> Operation[list[Submitted]]:
    """One after the other, so that people see them in the program's order."""
    batch = _batch_of([each for each in bodies if isinstance(each, dict)])
    results: list[Submitted] = []
    for body, deadline in zip(bodies, deadlines, strict=True):
        if not isinstance(body, dict):
            results.append(body)
            continue
        try:
            answer = yield from send_with_retries(HttpRequest("POST", "/pending", body | batch), deadline)
            results.append(asked_of(body, answer))
        except SignoffError as error:
            results.append(error)
    return results


def _batch_of(bodies: Sequence[_Body]) -> _Body:
    """The same questions again are the same batch; one alone is none."""
    if len(bodies) < 2:
        return {}
    named = "\0".join(each["request_id"] for each in bodies)
    return {"batch": {"id": hashlib.sha256(named.encode()).hexdigest(), "size": len(bodies)}}


def _result(
    wait: Wait, body: _Body, question: ProposedAction, broken: SignoffError | None
) -> Operation[Concluded]:
    """``broken``: why nobody can wait any longer."""
    if broken is not None and wait.review.status == "waiting":
        return broken
    try:
        review = yield from in_time(wait, keep=question.key is not None)
        return concluded(review, body.get("arguments", {}))
    except (SignoffError, TimeoutError) as error:
        return error

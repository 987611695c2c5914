"""Drive a graph that waits in an `interrupt`.

Nothing changes until all questions of a pause are decided. Approvals are claimed before the graph continues and
reported at its next pause, so no approval is used twice. Keys are derived from the interrupts' ids, so a restarted
process finds the same questions.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from signoff.integrations.extras import missing_framework

try:
    from langgraph.types import Command, StateSnapshot
except ImportError as error:
    raise missing_framework("LangGraph", "langgraph") from error

from signoff.canonical import canonical_bytes
from signoff.client import (
    ClaimedAction,
    GivenAnswer,
    ProposedAction,
    Review,
    answered,
    attempts,
    concluded,
    operations,
)
from signoff.client.effects import Operation
from signoff.client.facts import FACTS_MAX_AGE, FactsFunction, facts_of
from signoff.client.many import Submitted, submit_many
from signoff.errors import AlreadyClaimed, ApiError, CollaborationError, MalformedArguments, SignoffError
from signoff.integrations.langgraph_format import (
    Claims,
    GraphThread,
    InterruptFormat,
    InterruptQuestion,
    InterruptRefusal,
    MadeCall,
    Options,
    UnsupportedInterrupt,
    values_asking,
)
from signoff.integrations.questions import Question, still_there
from signoff.integrations.tool_calls import UNUSABLE, unusable

log = logging.getLogger("signoff.client")

MAX_DESCRIPTION = 2000


def resume_until_done(graph: GraphThread, shape: InterruptFormat, options: Options) -> Operation[Any]:
    """Ask and resume until the graph waits for nobody; returns its values.

    Raises TimeoutError (call again: the same questions), UnsupportedInterrupt, AlreadyClaimed (outcome unknown), what
    the graph raises, and what `ApprovalClient.ask` and `claim` raise.
    """
    options = {"session": graph.session, **options}
    claims = yield from _earlier_claims(graph, shape, options)
    state = yield from graph.look()
    if state.next and not state.interrupts:  # killed in the middle of a step
        state = yield from _resumed(graph, None, claims)
    else:
        yield from _reported(claims, state)
    while state.interrupts:
        asked = [(each, _questions(graph, shape, each, state)) for each in state.interrupts]
        resume_with, claims = yield from _answered(shape, asked, options)
        state = yield from _resumed(graph, Command(resume=resume_with), claims)
    return state.values


# --- asking -----------------------------------------------------------------------------------------------


def _questions(
    graph: GraphThread, shape: InterruptFormat, interrupt: Any, state: Any
) -> list[InterruptQuestion]:
    """Raises UnsupportedInterrupt and MalformedArguments."""
    found = shape.questions(interrupt, values_asking(state, interrupt))
    if not found:
        raise UnsupportedInterrupt("the interrupt asks about nothing")
    for each in found:
        canonical_bytes(dict(each.arguments))
    place = graph.config.get("configurable", {})
    named = canonical_bytes([str(place.get("thread_id")), place.get("checkpoint_ns", ""), interrupt.id])
    key = f"interrupt-{hashlib.sha256(named).hexdigest()[:40]}"
    return [replace(each, key=f"{key}-{number}") for number, each in enumerate(found)]


def _answered(
    shape: InterruptFormat, asked: Sequence[tuple[Any, list[InterruptQuestion]]], options: Options
) -> Operation[tuple[dict[str, Any], Claims]]:
    decided = yield from _decided([each for _, those in asked for each in those], options)
    answers: dict[str, Any] = {}
    for interrupt, those in asked:
        for number, each in enumerate(those):
            if isinstance(refusal := decided[each.key], InterruptRefusal):
                answers[each.key] = shape.refused(interrupt, number, refusal)
    claims: Claims = {}
    left = [
        (each, partial(shape.refused, interrupt, number))
        for interrupt, those in asked
        for number, each in enumerate(those)
        if each.key not in answers
    ]
    # Questions with facts first: if people must be asked again, nothing else of this pause is claimed yet.
    for each, refused in sorted(left, key=lambda one: _facts(one[0], options) is None):
        review = decided[each.key]
        if isinstance(review, GivenAnswer):
            answers[each.key] = shape.answered(review.value)
            continue
        if not isinstance(review, Review):
            answers[each.key] = shape.approved(each, each.arguments, edited=False, notes=())
            continue
        try:
            claim = yield from _claimed(claims, each, review, options)
        except CollaborationError as error:  # asked again and refused
            answers[each.key] = refused(InterruptRefusal(str(error), error.reason, error))
            continue
        try:
            shape.check_judged(each, claim.arguments)
        except MalformedArguments as error:
            yield from _report(claim, None, error)
            words = f"{each.action} was not done: {error}"
            answers[each.key] = refused(InterruptRefusal(words, words, error))
            continue
        claims[each.key] = each, claim
        answers[each.key] = shape.approved(each, claim.arguments, edited=claim.edited, notes=review.notes)
    resume_with = {
        interrupt.id: shape.whole(interrupt, [answers[each.key] for each in those])
        for interrupt, those in asked
    }
    return resume_with, claims


def _decided(
    questions: Sequence[InterruptQuestion], options: Options
) -> Operation[dict[str, Review | GivenAnswer | InterruptRefusal | None]]:
    """None where policy needs nobody. Raises TimeoutError and UnsupportedInterrupt."""
    limit = _limit(options)
    began = time.monotonic()
    found = yield from _submitted(questions, options, max(limit.seconds, 1.0))
    waits = {
        key: operations.Wait(review, limit, began)
        for key, review in found.items()
        if isinstance(review, Review)
    }
    yield from operations.decided_in_time([*waits.values()])
    decided: dict[str, Review | GivenAnswer | InterruptRefusal | None] = {}
    for each in questions:
        came = waits[each.key].review if each.key in waits else found[each.key]
        decided[each.key] = _concluded(each, came) if isinstance(came, Review) else came
    unasked = [each for each in questions if decided[each.key] is None and _facts(each, options) is not None]
    if unasked and time.monotonic() - began > FACTS_MAX_AGE:
        decided |= yield from _decided(unasked, options)
    return decided


def _submitted(
    questions: Sequence[InterruptQuestion], options: Options, patience: float
) -> Operation[dict[str, Review | InterruptRefusal | None]]:
    """Ask about all actions of a pause as one batch. Raises UnsupportedInterrupt."""
    found: dict[str, Review | InterruptRefusal | None] = {}
    actions = []
    # Forms first: if people cannot be asked for one, nothing else of this pause has been asked.
    for each in questions:
        if each.unusable is not None:
            words = unusable(each.action, each.unusable)
            found[each.key] = InterruptRefusal(words, words, each.unusable)
        elif each.answer is not None:
            found[each.key] = yield from _submitted_for(each.answer, each.key, options, patience)
        else:
            actions.append(each)
    asked: list[Submitted] = []
    for part in operations.parted([_proposed(each, options) for each in actions]):
        asked += yield from submit_many(part, session=options.get("session"), patience=patience)
    for each, came in zip(actions, asked, strict=True):
        if isinstance(came, ApiError) and came.kind == "denied":
            found[each.key] = InterruptRefusal(str(came), None, came)
        elif isinstance(came, Exception):
            raise came
        else:
            found[each.key] = came if isinstance(came, Review) else None
    return found


def _proposed(question: InterruptQuestion, options: Options) -> ProposedAction:
    return ProposedAction(
        question.action,
        question.arguments,
        description=_short(question.description),
        context=options.get("context"),
        key=question.key,
        requester=options.get("requester"),
        agent=options.get("agent"),
        facts=_facts(question, options),
    )


def _submitted_for(asked: Question, key: str, options: Options, patience: float) -> Operation[Review]:
    """Raises UnsupportedInterrupt."""
    try:
        return (
            yield from operations.submit_for(
                **asked.asked,
                context=options.get("context"),
                key=key,
                requester=options.get("requester"),
                agent=options.get("agent"),
                session=options.get("session"),
                patience=patience,
            )
        )
    except ApiError as error:
        if error.status != UNUSABLE:
            raise
        raise UnsupportedInterrupt(str(error)) from None


def _concluded(question: InterruptQuestion, review: Review) -> Review | GivenAnswer | InterruptRefusal:
    """Raises TimeoutError while nobody has decided."""
    try:
        if question.answer is not None:
            return still_there(answered(review))
        concluded(review, question.arguments)
    except CollaborationError as error:
        words = "nobody decided in time" if error.cause == "expired" and not error.reason else str(error)
        return InterruptRefusal(words, error.reason, error)
    if review.edited and not question.editable:
        words = "a reviewer changed the arguments, which this agent does not allow; nothing was done"
    elif _settled(review) == "done":
        words = "it has been done already: a person has marked it as done"
    else:
        return review
    return InterruptRefusal(words, words, CollaborationError("withdrawn", request_id=review.id, reason=words))


# --- going on ---------------------------------------------------------------------------------------------


def _claimed(
    claims: Claims, question: InterruptQuestion, review: Review, options: Options
) -> Operation[ClaimedAction]:
    """If a claim fails, release the other claims too: nothing has started."""
    try:
        return (
            yield from attempts.claim(
                concluded(review, question.arguments),
                lease=options.get("lease"),
                attempt=_attempt(question, review, options),
                facts=_facts(question, options),
                timeout=_limit(options),
            )
        )
    except CollaborationError:
        raise
    except Exception:
        for _, other in claims.values():
            yield from _report(
                other, None, f"not begun: {question.action} of the same pause cannot be claimed"
            )
        raise


def _attempt(question: InterruptQuestion, review: Review, options: Options) -> str | None:
    """The name of a claim that a restarted process may resume."""
    if not options.get("idempotent"):
        return None
    last = review.raw["execution"]
    if last is None or _settled(review) == "retry":
        return f"{question.key}:{last['attempt'] + 1 if last else 1}"
    return f"{question.key}:{last['attempt']}" if last["status"] == "claimed" else None


def _resumed(graph: GraphThread, resume_with: Any, claims: Claims) -> Operation[Any]:
    """Raises what the graph raises."""
    began = time.monotonic()
    try:
        yield from graph.go_on(resume_with)
    except Exception as error:
        state = yield from graph.look()
        yield from _reported(claims, state, error, time.monotonic() - began)
        raise
    state = yield from graph.look()
    yield from _reported(claims, state, None, time.monotonic() - began)
    return state


def _earlier_claims(graph: GraphThread, shape: InterruptFormat, options: Options) -> Operation[Claims]:
    """Claims that an earlier process did not report. Raises AlreadyClaimed."""
    state = yield from graph.look()
    last = None if state.created_at is None else (yield from graph.last_pause())
    claims: Claims = {}
    if last is None or (last.config == state.config and state.interrupts):
        return claims
    underway = bool(state.next) and not state.interrupts
    for interrupt in last.interrupts:
        try:
            questions = _questions(graph, shape, interrupt, last)
        except SignoffError:
            continue  # not asked here
        for question in questions:
            claim = yield from _taken_up(question, options, underway=underway)
            if claim is not None:
                claims[question.key] = question, claim
    return claims


def _taken_up(
    question: InterruptQuestion, options: Options, *, underway: bool
) -> Operation[ClaimedAction | None]:
    """None if there is nothing to report."""
    try:
        review = yield from operations.get(question.key)
    except ApiError as error:
        if error.status != 404:
            raise
        return None
    status = (review.raw["execution"] or {"status": None})["status"]
    if status is None or _settled(review) == "done":
        return None
    retry = _settled(review) == "retry"
    if (status == "claimed" and options.get("idempotent")) or (retry and underway):
        return (
            yield from attempts.claim(
                concluded(review, question.arguments),
                lease=options.get("lease"),
                attempt=_attempt(question, review, options),
                facts=_facts(question, options),
                timeout=_limit(options),
            )
        )
    if underway and status != "succeeded":
        words = (
            f"{question.action} has already begun, and it is {status}; people settle it (request {review.id})"
        )
        raise AlreadyClaimed(409, "claimed", words)
    return None


# --- reporting --------------------------------------------------------------------------------------------


def _reported(
    claims: Claims, state: Any, error: Exception | None = None, seconds: float | None = None
) -> Operation[None]:
    """Use the call's tool message if there is one."""
    messages = _messages(state)
    for question, claim in claims.values():
        message = messages.get(question.call) if question.call else None
        if message is not None:
            failed = str(message.content) if getattr(message, "status", None) == "error" else None
            yield from _report(claim, message.content, failed, seconds)
        else:
            yield from _report(claim, None, error, seconds)


def _report(
    claim: ClaimedAction, result: Any, error: Any = None, seconds: float | None = None
) -> Operation[None]:
    try:
        yield from attempts.report(claim, result, error=error, seconds=seconds)
    except SignoffError as failed:
        log.error("could not report the outcome: %s (request %s)", failed, claim.id)  # noqa: TRY400 - not our fault


def _messages(state: Any) -> dict[MadeCall, Any]:
    """The answer to each call. Include those of completed tasks in an incomplete step, and of graphs within."""
    places = [state.values, *(task.result for task in state.tasks)]
    found: dict[MadeCall, Any] = {}
    for inner in (task.state for task in state.tasks):
        if isinstance(inner, StateSnapshot):
            found |= _messages(inner)
    message: str | None = None
    for each in [one for place in places if isinstance(place, Mapping) for one in place.get("messages", ())]:
        if getattr(each, "tool_calls", None):
            message = each.id
        elif (answered := getattr(each, "tool_call_id", None)) is not None:
            found[MadeCall(message, answered)] = each
    return found


def _facts(question: InterruptQuestion, options: Options) -> FactsFunction | None:
    return None if question.answer else facts_of(options.get("facts"), question.action)


def _limit(options: Options) -> operations.WaitLimit:
    return operations.WaitLimit.of(options.get("timeout"))


def _settled(review: Review) -> str | None:
    settled: str | None = (review.raw["execution"] or {}).get("settled_as")
    return settled


def _short(words: str | None) -> str | None:
    return words if words is None or len(words) <= MAX_DESCRIPTION else f"{words[: MAX_DESCRIPTION - 1]}…"

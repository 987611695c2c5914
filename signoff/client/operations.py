"""The operations of a client: ask, submit, withdraw, get, list."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

from signoff.canonical import canonical_bytes, parse_checked
from signoff.client.effects import HttpRequest, HttpResponse, Operation, Sleep
from signoff.client.facts import FactsOrFunction, look_up_to_ask
from signoff.client.retries import (
    PAUSES,
    TRANSIENT,
    asked_to_wait,
    content_of,
    respond_with_retries,
    send_with_retries,
)
from signoff.client.reviews import Approval, GivenAnswer, Review, Status, answered, concluded
from signoff.client.waiting_line import has_card, is_said, say_waiting
from signoff.context_limit import fit_to_send
from signoff.durations import Duration, seconds_of
from signoff.errors import ApiError, Conflict, MalformedArguments, SignoffError, Unreachable
from signoff.sessions import checked_session
from signoff.values import Action

T = TypeVar("T")
Asked = TypeVar("Asked", Review, "Review | Approval")

TIMEOUT = 30.0
"""Seconds that `ask` waits where neither the program nor policy says how long."""

TO_EXPIRE = 10.0
"""Seconds that the service may take to end what has expired."""

PATIENCE = 30.0
"""Seconds that a call tolerates an outage, unless it waits for people."""

LONGEST_WAIT = 50.0
"""Seconds per long poll; proxies often cut connections silent for a minute."""

FIRST_LOOK = 1.0
LOOKS_FOR_CARD = 3
"""So often, and for so many seconds each, a program that begins to wait looks for the card that it links to."""

EARLY = 0.5
"""Seconds before the end of a long poll; a response earlier than that is no end of the wait."""

MOST_AT_ONCE = 100
"""Questions of a batch, and requests that one long poll looks at."""

VERSION = "external"


@dataclass(frozen=True, slots=True)
class WaitLimit:
    """How long a program waits for people: `seconds`, or as long as policy says if that comes first."""

    seconds: float
    policy_first: bool

    @classmethod
    def of(cls, given: Duration | WaitLimit | None, otherwise: Duration | None = None) -> WaitLimit:
        """``otherwise`` (default: 30 s) where neither the program nor policy says. Raises ValueError."""
        if isinstance(given, WaitLimit):
            return given
        if given is not None:
            return cls(seconds_of(given), policy_first=False)
        return cls(TIMEOUT if otherwise is None else seconds_of(otherwise), policy_first=True)


BY_POLICY = WaitLimit.of(None)


def ask(
    action: str | None,
    arguments: Mapping[str, Any] | None = None,
    *,
    description: str | None = None,
    context: Any = None,
    timeout: Duration | WaitLimit | None = None,
    key: str | None = None,
    requester: str | None = None,
    agent: str | None = None,
    rationale: str | None = None,
    session: str | None = None,
    facts: FactsOrFunction = None,
) -> Operation[Approval]:
    """Ask people to approve an action, and wait for their decision.

    ``action`` is the tool's name for the checkpoints; without one, people are always asked, about ``description``.
    ``context`` is what a reviewer should know (any JSON; if too long, its middle is cut and the omission counted).
    ``key`` names the question: a restarted process that asks the same under the same key gets the existing request,
    decided or not. ``session`` names the conversation (1 to 200 characters without control characters): whoever gave
    their own words in it does not approve alone what follows in it. ``facts`` is what the program itself knows about
    the arguments, or a function of them that looks it up; policy reads it as `facts.…`. It needs a key of scope
    `facts`. If the function fails, people are asked.

    Raises TimeoutError after ``timeout`` ("72h", or seconds) without a decision, and withdraws the request unless it
    has a key. Without ``timeout`` it waits until the request expires, if policy sets a timeout, and else for 30 s.
    Raises CollaborationError (logged before) if the request is rejected or withdrawn, and ApprovalExpired, which is
    also a TimeoutError, if it expires; ApiError, Conflict (the key was used for other content), MalformedArguments,
    ValueError (no such session) and Unreachable.
    """
    arguments = as_judged(arguments)
    ask = partial(
        submit,
        action,
        arguments,
        description=description,
        context=context,
        key=key,
        requester=requester,
        agent=agent,
        rationale=rationale,
        session=session,
        facts=facts,
    )
    asked = yield from _asked(ask, timeout, keep=key is not None)
    return asked if isinstance(asked, Approval) else concluded(asked, arguments)


def ask_for(
    question: str,
    options: Sequence[str] | None = None,
    *,
    form: Any = None,
    other: bool = True,
    answerers: Sequence[str] | None = None,
    answers_required: int = 1,
    context: Any = None,
    timeout: Duration | WaitLimit | None = None,
    key: str | None = None,
    requester: str | None = None,
    agent: str | None = None,
    session: str | None = None,
) -> Operation[GivenAnswer]:
    """Ask people for one of some options, or to fill in a form, and wait for their answer.

    ``form`` is a pydantic model, whose instance is then the answer's ``value``, or a JSON Schema of an object with at
    most ten fields: texts, numbers, dates, one or several of some texts, people, yes and no. ``other``: own words may
    be given in place of an option. ``answerers`` may be ``requester``, ``reviewers``, ``channel`` and the ids of Slack
    users and groups; by default the requester and the reviewers. So many equal answers are required. An answer
    authorises nothing.

    Waits as `ask` does, and raises what it raises; ValueError if not exactly one of ``options`` and ``form`` is given,
    and SignoffError if the model's own validators refuse what its schema allows.
    """
    model = form if hasattr(form, "model_json_schema") else None
    ask = partial(
        submit_for,
        question,
        options,
        form=model.model_json_schema() if model else form,
        other=other,
        answerers=answerers,
        answers_required=answers_required,
        context=context,
        key=key,
        requester=requester,
        agent=agent,
        session=session,
    )
    answer = answered((yield from _asked(ask, timeout, keep=key is not None)))
    return answer if model is None or answer.value is None else _of_model(answer, model)


def _of_model(answer: GivenAnswer, model: Any) -> GivenAnswer:
    """Raises SignoffError."""
    from signoff.json_form import instance_of  # noqa: PLC0415 - needs pydantic

    try:
        return replace(answer, value=instance_of(model, answer.value))
    except MalformedArguments as error:
        words = f"the answer does not fit {model.__name__} (request {answer.id}): {error}"
        raise SignoffError(words) from None


def submit_for(
    question: str,
    options: Sequence[str] | None = None,
    *,
    form: Mapping[str, Any] | None = None,
    other: bool = True,
    answerers: Sequence[str] | None = None,
    answers_required: int = 1,
    context: Any = None,
    key: str | None = None,
    requester: str | None = None,
    agent: str | None = None,
    session: str | None = None,
    patience: float = PATIENCE,
) -> Operation[Review]:
    """Ask people as `ask_for` does, without waiting; `answered` turns the answered request into the answer."""
    if (options is None) == (form is None) or isinstance(options, str):
        raise ValueError("ask for `options`, which are a list, or for a `form`, one of the two")
    body = _question(None, {}, question, context, key)
    body["answer"] = {"enum": list(options)} if options is not None else dict(form or {})
    body |= {} if other else {"other": False}
    body |= {} if answers_required == 1 else {"answers_required": answers_required}
    optional = {
        "answerers": None if answerers is None else list(answerers),
        "requester": requester,
        "agent": agent,
        "session": checked_session(session),
    }
    body |= {name: value for name, value in optional.items() if value is not None}
    answer = yield from send_with_retries(HttpRequest("POST", "/pending", body), time.monotonic() + patience)
    return Review.of(answer)


def submit(
    action: str | None,
    arguments: Mapping[str, Any] | None = None,
    *,
    description: str | None = None,
    context: Any = None,
    key: str | None = None,
    requester: str | None = None,
    agent: str | None = None,
    rationale: str | None = None,
    session: str | None = None,
    facts: FactsOrFunction = None,
    patience: float = PATIENCE,
) -> Operation[Review | Approval]:
    """Ask people as `ask` does, without waiting: returns the request, or an Approval if policy requires none.

    Use `get` to look again, and `concluded` to turn a decided request into an approval. Raises ApiError, Conflict,
    MalformedArguments, ValueError and Unreachable.
    """
    body = yield from body_of(
        action,
        arguments,
        description=description,
        context=context,
        key=key,
        requester=requester,
        agent=agent,
        rationale=rationale,
        session=session,
        facts=facts,
    )
    answer = yield from send_with_retries(HttpRequest("POST", "/pending", body), time.monotonic() + patience)
    return asked_of(body, answer)


def withdraw(request_id: str, *, patience: float = PATIENCE) -> Operation[Review]:
    """Withdraw a request. Raises Conflict if it is already decided, ApiError and Unreachable."""
    answer = yield from send_with_retries(
        HttpRequest("DELETE", path_of(request_id)), time.monotonic() + patience
    )
    return Review.of(answer)


def get(request_id: str, *, wait: Duration = 0.0, patience: float = PATIENCE) -> Operation[Review]:
    """Return a request's state; with ``wait``, once decided or at that time. Raises ApiError and Unreachable."""
    seconds = seconds_of(wait)
    until = time.monotonic() + seconds
    deadline = until + patience
    review = Review.of((yield from send_with_retries(HttpRequest("GET", path_of(request_id)), deadline)))
    if review.status == "waiting" and seconds > 0:
        known = {review.id: review}
        yield from decided(known, until)
        [review] = known.values()
    return review


def pending(
    *,
    status: Status | None = "waiting",
    agent: str | None = None,
    limit: int = 200,
    patience: float = PATIENCE,
) -> Operation[list[Review]]:
    """List requests, newest first: the team's with scope `read`, otherwise those of this key.

    Raises ApiError and Unreachable.
    """
    found: list[Review] = []
    query = {name: value for name, value in (("status", status), ("agent", agent)) if value is not None}
    while len(found) < limit:
        size = {"limit": str(min(200, limit - len(found)))}
        page = yield from send_with_retries(
            HttpRequest("GET", "/pending", query={**query, **size}), time.monotonic() + patience
        )
        found += [Review.of(item) for item in page["items"]]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    return found


# --- parts ------------------------------------------------------------------------------------------------


def as_judged(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """A copy, as JSON. Raises MalformedArguments."""
    copied: dict[str, Any] = parse_checked(canonical_bytes(dict(arguments or {})))
    return copied


def path_of(name: str) -> str:
    """Quoted, so that no name can reach another request."""
    return f"/pending/{quote(name, safe='')}"


def body_of(
    action: str | None,
    arguments: Mapping[str, Any] | None = None,
    *,
    description: str | None = None,
    context: Any = None,
    key: str | None = None,
    requester: str | None = None,
    agent: str | None = None,
    rationale: str | None = None,
    session: str | None = None,
    facts: FactsOrFunction = None,
) -> Operation[dict[str, Any]]:
    """What is sent of a question, with the program's facts. Raises MalformedArguments and ValueError."""
    arguments = as_judged(arguments)
    body = _question(action, arguments, description, context, key)
    optional = {
        "requester": requester,
        "agent": agent,
        "rationale": rationale,
        "session": checked_session(session),
    }
    body |= {name: value for name, value in optional.items() if value is not None}
    body |= yield from look_up_to_ask(facts, arguments, action)
    return body


def asked_of(body: Mapping[str, Any], answer: Mapping[str, Any]) -> Review | Approval:
    """What came of the question with this body."""
    if answer["status"] == "not_required":
        action, arguments = str(body.get("action")), body.get("arguments", {})
        return Approval("not_required", action, arguments, answer["request_id"])
    return Review.of(answer)


def _question(
    action: str | None, arguments: Mapping[str, Any], description: str | None, context: Any, key: str | None
) -> dict[str, Any]:
    """Raises MalformedArguments before anything is sent."""
    if action is None and (not description or arguments):
        raise ValueError(
            "without an action, say in `description` what is to be decided, and give no arguments"
        )
    body: dict[str, Any] = {"request_id": key or str(uuid4())}
    if action is not None:
        Action(action, VERSION, arguments)  # raises what the service would refuse
        body |= {"action": action, "arguments": arguments}
    if description:
        body["action_description"] = description
    if context is not None:
        body["agent_context"] = fit_to_send(context, body)
    return body


def _asked(
    ask: Callable[..., Operation[Asked]], timeout: Duration | WaitLimit | None, *, keep: bool
) -> Operation[Asked]:
    """Ask with `submit` or `submit_for`, and wait for what people say. Raises TimeoutError; see `in_time`."""
    limit, began = WaitLimit.of(timeout), time.monotonic()
    asked = yield from ask(patience=max(limit.seconds, 1.0))
    if not isinstance(asked, Review):
        return asked
    return (yield from decided_or_left(asked, limit, began, keep=keep))


def decided(known: dict[str, Review], deadline: float) -> Operation[None]:
    """Wait until all requests are decided, or for the deadline. Waits through outages, and says that it waits.

    ``known`` are the requests by their ids, and then what has become of them, also if this raises. A service with many
    waiting callers, or one that is stopping, answers early and says when to ask again.
    """
    looks = LOOKS_FOR_CARD
    while (waiting := _waiting(known)) and (left := deadline - time.monotonic()) > 0:
        wait = min(left, LONGEST_WAIT)
        if not all(map(is_said, waiting)):
            if all(map(has_card, waiting)) or looks == 0 or left <= FIRST_LOOK:
                say_waiting(waiting)
            else:  # the cards are about to be posted
                looks, wait = looks - 1, min(wait, FIRST_LOOK)
        asked = time.monotonic()
        try:
            answer = yield from _looked(known, waiting, wait, deadline)
        except Unreachable:
            break
        except ApiError as error:
            if error.status not in TRANSIENT:
                raise
            break
        now = time.monotonic()
        if _waiting(known) and now - asked < wait - min(EARLY, wait / 2):
            pause = random.uniform(1.0, 1.1) * min(asked_to_wait(answer) or 0.0, LONGEST_WAIT)  # noqa: S311 - jitter
            last = deadline - now - PAUSES.first  # when there is time for one more look
            yield Sleep(max(PAUSES.first, min(pause, last)))


def _waiting(known: Mapping[str, Review]) -> list[Review]:
    return [each for each in known.values() if each.status == "waiting"]


def _looked(
    known: dict[str, Review], waiting: Sequence[Review], wait: float, deadline: float
) -> Operation[HttpResponse]:
    """Look at those that wait with one long poll, and note in ``known`` what has become of them."""
    several = len(waiting) > 1
    path = "/pending" if several else path_of(waiting[0].id)
    named = {"id": [each.id for each in waiting], "limit": str(len(waiting))} if several else {}
    call = HttpRequest("GET", path, query={**named, "wait": f"{wait:.3f}"}, seconds=wait + 10.0)
    answer = yield from respond_with_retries(call, deadline)
    content = content_of(answer)
    found = [Review.of(each) for each in (content["items"] if several else [content])]
    while several and content["next"] and len(found) < len(waiting):  # a page ends after about a megabyte
        rest = {**named, "cursor": content["next"]}
        content = yield from send_with_retries(HttpRequest("GET", path, query=rest), deadline)
        found += [Review.of(each) for each in content["items"]]
    known |= {each.id: each for each in found}
    if lost := {each.id for each in waiting} - {each.id for each in found}:
        raise ApiError(404, "not-found", f"the service does not know the request {min(lost)} any more")
    return answer


@dataclass(slots=True)
class Wait:
    """A program's wait for one request, as long as it says itself, or policy, whose time begins again if it escalates.

    ``began``: when the program asked, monotonic.
    """

    review: Review
    limit: WaitLimit
    began: float
    by_policy: bool = field(init=False)
    seconds: float = field(init=False)
    deadline: float = field(init=False)

    def __post_init__(self) -> None:
        by_policy: float | None = self.review.raw.get("timeout_seconds") if self.limit.policy_first else None
        self.by_policy = by_policy is not None
        self.seconds = self.limit.seconds if by_policy is None else by_policy
        self.deadline = self.began + self.seconds
        if self.by_policy:
            self._begin_again()

    def _begin_again(self) -> None:
        self.deadline = time.monotonic() + self.seconds + TO_EXPIRE

    @property
    def goes_on(self) -> bool:
        return self.review.status == "waiting" and self.deadline > time.monotonic()

    def update(self, review: Review) -> None:
        """Take over what has become of the request."""
        if self.by_policy and review.expires_at != self.review.expires_at:
            self._begin_again()
        self.review = review


def decided_in_time(waits: Sequence[Wait]) -> Operation[None]:
    """Wait until each request is decided or its own time is over."""
    for part in parted(waits):
        while going_on := [each for each in part if each.goes_on]:
            yield from decided_or_over(going_on)


def decided_or_over(waits: Sequence[Wait]) -> Operation[None]:
    """Wait until all requests are decided, or the time of one is over."""
    known = {each.review.id: each.review for each in waits}
    try:
        yield from decided(known, min(each.deadline for each in waits))
    finally:
        for each in waits:
            each.update(known[each.review.id])


def parted(whole: Sequence[T]) -> list[Sequence[T]]:
    """As many as the service takes at once."""
    return [whole[first : first + MOST_AT_ONCE] for first in range(0, len(whole), MOST_AT_ONCE)]


def decided_or_left(review: Review, limit: WaitLimit, began: float, *, keep: bool) -> Operation[Review]:
    """Wait for one request. Raises TimeoutError; see `in_time`."""
    wait = Wait(review, limit, began)
    yield from decided_in_time([wait])
    return (yield from in_time(wait, keep=keep))


def in_time(wait: Wait, *, keep: bool) -> Operation[Review]:
    """The decided request, or TimeoutError; it is then withdrawn unless ``keep``, or somebody decides just then."""
    review, seconds = wait.review, wait.seconds
    if review.status != "waiting":
        return review
    if keep:
        words = f"the request stays open under its key {review.request_id}"
        raise TimeoutError(f"nobody has decided within {seconds:g} s; {words} (request {review.id})")
    try:
        yield from withdraw(review.id, patience=5.0)
        words = "the request was withdrawn"
    except Conflict:
        return (yield from get(review.id, patience=5.0))
    except (ApiError, Unreachable) as error:
        words = f"the request could not be withdrawn: {error}"
    raise TimeoutError(f"nobody has decided within {seconds:g} s; {words} (request {review.id})")


__all__ = [
    "BY_POLICY",
    "Wait",
    "WaitLimit",
    "answered",
    "ask",
    "ask_for",
    "asked_of",
    "body_of",
    "concluded",
    "decided",
    "decided_in_time",
    "decided_or_left",
    "decided_or_over",
    "get",
    "in_time",
    "parted",
    "path_of",
    "pending",
    "submit",
    "submit_for",
    "withdraw",
]

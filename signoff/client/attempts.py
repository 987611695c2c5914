"""The operations `claim` and `report` of a client."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from signoff.canonical import canonical_bytes
from signoff.client.effects import HttpRequest, Operation
from signoff.client.facts import FactsOrFunction, look_up_now
from signoff.client.operations import BY_POLICY, PATIENCE, WaitLimit, decided_or_left, get, path_of
from signoff.client.retries import send_with_retries
from signoff.client.reviews import Approval, ClaimedAction, Review, concluded
from signoff.description import bounded
from signoff.durations import Duration, seconds_of
from signoff.errors import ApiError, MalformedArguments, SignoffError
from signoff.values import Action

log = logging.getLogger("signoff.client")

MAX_RESULT = 20_000
MAX_ERROR = 4_000


def claim(
    decision: Approval | Review | str,
    *,
    lease: Duration | None = None,
    attempt: str | None = None,
    patience: float = PATIENCE,
    facts: FactsOrFunction = None,
    timeout: Duration | WaitLimit | None = BY_POLICY,
    keep: bool = True,
) -> Operation[ClaimedAction]:
    """Claim an approval to act on it now: once, and only before it lapses.

    ``lease`` ("1h", or seconds) is how long the action may take; without a report by then, people are asked what
    happened. ``attempt`` names this claim (1 to 255 visible ASCII characters): the same name within a day returns the
    same claim, so a process that was killed can continue. Use it only for actions that are safe to repeat. Raises
    AlreadyClaimed, ApiError (409: not approved, lapsed, paused …) and Unreachable.

    ``facts`` are sent again with their current values. A function is called with the arguments of an Approval; if it
    fails, FactsFailed is raised. If the facts differ from those approved, people are asked again, and the claim waits
    up to ``timeout``, then raises TimeoutError; the request stays open unless ``keep`` is false. By default it waits as
    `ask` does without a timeout. With `None` it does not wait and raises ApiError (409, `facts-changed`).
    """
    limit = None if timeout is None else WaitLimit.of(timeout)
    lease_seconds = None if lease is None else seconds_of(lease)
    while True:
        answer = yield from look_up_now(facts, decision)
        try:
            return (yield from _claim(decision, answer, lease_seconds, attempt, patience))
        except ApiError as changed:
            if changed.kind != "facts-changed" or limit is None:
                raise
            again = str(changed.problem["id"])
        log.info(
            "asked again: the facts or the policy have changed since people approved it (request %s)", again
        )
        review = yield from decided_or_left((yield from get(again)), limit, time.monotonic(), keep=keep)
        decision = concluded(review, decision.arguments if isinstance(decision, Approval) else None)


def _claim(
    decision: Approval | Review | str,
    facts: Mapping[str, Any] | None,
    lease_seconds: float | None,
    attempt: str | None,
    patience: float,
) -> Operation[ClaimedAction]:
    name, digest = _named(decision)
    body: dict[str, Any] = {"digest": digest} if digest else {}
    if lease_seconds is not None:
        body["lease"] = lease_seconds
    if facts is not None:
        body["facts"] = facts
    call = HttpRequest(
        "POST", f"{path_of(name)}/claim", body, headers={"Idempotency-Key": attempt or str(uuid4())}
    )
    answer = yield from send_with_retries(call, time.monotonic() + patience)
    action = Action(answer["action"]["tool"], answer["action"]["tool_version"], answer["action"]["arguments"])
    if action.digest.hex() != answer["digest"] or (digest and answer["digest"] != digest):
        raise SignoffError(
            f"the service returned a different action from the approved one (request {name}); nothing was done"
        )
    return ClaimedAction(
        id=answer["id"],
        request_id=answer["request_id"],
        action=action.tool,
        arguments=action.arguments,
        digest=answer["digest"],
        revision=answer["revision"],
        edited=answer["edited"],
        attempt=answer["attempt"],
        execution_id=answer["execution_id"],
        idempotency_key=answer["idempotency_key"],
        token=answer["token"],
    )


def report(
    claimed: ClaimedAction,
    result: Any = None,
    *,
    error: str | BaseException | None = None,
    seconds: float | None = None,
    patience: float = PATIENCE,
) -> Operation[Review]:
    """Report the result (as text unless it is JSON) or the error, for the card. Repeating a report has no effect.

    Raises ApiError and Unreachable.
    """
    body: dict[str, Any] = {"token": claimed.token}
    if error is None:
        body |= {"status": "succeeded", "result": _reportable(result)}
    else:
        words = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        body |= {"status": "failed", "error": bounded(_text(words), MAX_ERROR) or "failed"}
    if seconds is not None:
        body["seconds"] = seconds
    answer = yield from send_with_retries(
        HttpRequest("POST", f"{path_of(claimed.id)}/result", body), time.monotonic() + patience
    )
    return Review.of(answer)


def _named(decision: Approval | Review | str) -> tuple[str, str | None]:
    if isinstance(decision, str):
        return decision, None
    return decision.id or decision.request_id, decision.digest


def _reportable(result: Any) -> Any:
    try:
        encoded = canonical_bytes(result)
    except MalformedArguments:
        return bounded(_text(str(result)), MAX_RESULT)
    return json.loads(encoded) if len(encoded) <= MAX_RESULT else bounded(encoded.decode(), MAX_RESULT)


def _text(words: str) -> str:
    return words.encode("utf-8", "replace").decode().replace("\x00", "␀")

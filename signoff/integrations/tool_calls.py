"""A framework's tool call is asked about, and its outcome reported."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from signoff.canonical import canonical_bytes, parse_arguments
from signoff.client import (
    ApiError,
    Approval,
    AsyncApprovalClient,
    AttemptOutcome,
    ClaimedAction,
    earlier_outcome,
    operations,
)
from signoff.client.facts import FACTS_MAX_AGE, FactsByTool, facts_of
from signoff.client.operations import WaitLimit
from signoff.errors import CollaborationError, MalformedArguments, SignoffError
from signoff.formats import approval_notes
from signoff.sessions import session_named

log = logging.getLogger("signoff.client")

DENIED = 403
UNUSABLE = 422

TIMEOUT = "1h"
"""How long to wait where neither the program nor policy says."""

T = TypeVar("T")

CallOutcome = Approval | AttemptOutcome | str
"""An approval, how the call ended before a restart, or why it must not run."""


_batch: ContextVar[operations.Batch | None] = ContextVar("batch", default=None)
"""That of the calls which `all_outcomes` asks about now."""


@dataclass(frozen=True)
class CallName:
    """What a resumed call shares with its question, and a new call with no other.

    The model's id of a call is neither: models repeat ids, use the tool's name, or give none. `place` is where the
    framework keeps the call, such as the turn; the action is part of the name.
    """

    run: str
    place: Sequence[str | int | None]

    def key(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Raises MalformedArguments."""
        named = json.dumps([*self.place, tool]).encode() + canonical_bytes(dict(arguments))
        return f"{self.run}:{hashlib.sha256(named).hexdigest()[:40]}"


async def ask_about(
    client: AsyncApprovalClient,
    tool: str,
    arguments: str | Mapping[str, Any] | None,
    *,
    call: CallName | None,
    session: str | None,
    context: Any,
    timeout: WaitLimit,
    facts: FactsByTool = None,
) -> CallOutcome:
    """Without a name, no answer is a refusal; with one, it raises TimeoutError, and the question stays open.

    Raises AlreadyClaimed while the call's outcome is unknown, ApiError, Conflict and Unreachable.
    """
    try:
        given = arguments if isinstance(arguments, Mapping) else parse_arguments(arguments or "{}")
        approval = await client.ask(
            tool,
            given,
            context=context,
            timeout=timeout,
            facts=facts_of(facts, tool),
            session=session_named(session),
            key=None if call is None else call.key(tool, given),
            batch=_batch.get(),
        )
    except CollaborationError as refusal:
        return f"{tool} was not done: {refusal}"
    except TimeoutError as silence:
        if call is not None:
            raise
        return f"{tool} was not done: {silence}"
    except MalformedArguments as error:
        return unusable(tool, error)
    except ApiError as error:
        if error.status != DENIED:
            raise
        return f"{tool} was not done: {error}"
    return (earlier_outcome(await client.get(approval.id)) if approval.id else None) or approval


def unusable(tool: str, error: SignoffError) -> str:
    """Tell a model that its call was not done, and nobody was asked, because the call is unusable."""
    return f"{tool} was not done, and nobody was asked about it: {error}"


def shared_id(call_id: str | None) -> SignoffError:
    """Why a call is refused that its framework cannot tell from another one of the same turn."""
    return SignoffError(
        f"another call has the same id, {call_id!r}; make one call at a time, and give each an id of its own"
    )


async def all_outcomes(questions: Sequence[Callable[[], Awaitable[T]]], *, with_facts: bool) -> list[T]:
    """Return the outcomes in order once all are known, or raise the first error.

    If facts allowed one call without approval and people took long over another, the first is judged again.
    """
    began = time.monotonic()
    outcomes: list[T] = []
    token = _batch.set(operations.batch_of(len(questions)))
    try:
        found = await asyncio.gather(*(ask() for ask in questions), return_exceptions=True)
    finally:
        _batch.reset(token)
    for each in found:
        if isinstance(each, BaseException):
            raise each
        outcomes.append(each)
    if not with_facts or time.monotonic() - began <= FACTS_MAX_AGE:
        return outcomes
    unasked = [
        number
        for number, outcome in enumerate(outcomes)
        if isinstance(outcome, Approval) and outcome.status == "not_required"
    ]
    if unasked:
        again = await all_outcomes([questions[number] for number in unasked], with_facts=True)
        for number, outcome in zip(unasked, again, strict=True):
            outcomes[number] = outcome
    return outcomes


async def report_outcome(
    client: AsyncApprovalClient,
    claim: ClaimedAction,
    began: float,
    *,
    result: Any = None,
    error: Exception | None = None,
) -> None:
    """A failed report must not hide the tool's outcome."""
    try:
        await client.report(claim, result, error=error, seconds=time.monotonic() - began)
    except SignoffError as failure:
        log.error("could not report the outcome: %s (request %s)", failure, claim.id)  # noqa: TRY400


def approval_note(approval: Approval) -> str | None:
    """Secrets are masked."""
    lines = [approval_notes(approval.notes)] if approval.notes else []
    if approval.edited:
        changed = json.dumps(approval.arguments, ensure_ascii=False)
        lines.insert(0, f"A reviewer changed the arguments of {approval.action}; it ran with {changed}.")
    return "\n".join(lines) or None


def with_note(result: Any, approval: Approval) -> Any:
    """Append the reviewers' notes to a tool's text for the model; any other result stays as it is."""
    note = approval_note(approval)
    return f"{result}\n{note}" if note and isinstance(result, str) else result

"""A framework's tool calls of one pause are asked about as one batch, and their outcomes reported."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from signoff.canonical import canonical_bytes, parse_arguments
from signoff.client import (
    ApiError,
    Approval,
    AsyncApprovalClient,
    AttemptOutcome,
    ClaimedAction,
    ProposedAction,
    earlier_outcome,
)
from signoff.client.facts import FACTS_MAX_AGE, FactsByTool, facts_of
from signoff.client.many import Concluded
from signoff.client.operations import WaitLimit, parted
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


@dataclass(frozen=True)
class CallQuestion:
    """A call that people are asked about.

    Without a name, no answer is a refusal; with one, it is a TimeoutError, and the question stays open.
    """

    tool: str
    arguments: str | Mapping[str, Any] | None
    name: CallName | None

    def proposed(self, context: Any, facts: FactsByTool) -> ProposedAction:
        """Raises MalformedArguments."""
        given = (
            self.arguments if isinstance(self.arguments, Mapping) else parse_arguments(self.arguments or "{}")
        )
        key = None if self.name is None else self.name.key(self.tool, given)
        return ProposedAction(self.tool, given, context=context, key=key, facts=facts_of(facts, self.tool))


def unusable(tool: str, error: SignoffError) -> str:
    """Tell a model that its call was not done, and nobody was asked, because the call is unusable."""
    return f"{tool} was not done, and nobody was asked about it: {error}"


def shared_id(call_id: str | None) -> SignoffError:
    """Why a call is refused that its framework cannot tell from another one of the same turn."""
    return SignoffError(
        f"another call has the same id, {call_id!r}; make one call at a time, and give each an id of its own"
    )


async def all_outcomes(
    client: AsyncApprovalClient,
    questions: Sequence[CallQuestion | Callable[[], Awaitable[T]] | str],
    *,
    session: str | None,
    context: Any,
    timeout: WaitLimit,
    facts: FactsByTool = None,
) -> list[CallOutcome | T]:
    """Ask all questions of a pause at once, the calls as one batch; return the outcomes in order once all are known.

    A function asks for something else, and a text says why nobody is asked. If facts allowed a call without approval
    and people took long over another, it is judged again. Raises the first error: AlreadyClaimed while a call's outcome
    is unknown, ApiError, Conflict, TimeoutError and Unreachable.
    """
    began = time.monotonic()
    calls = [each for each in questions if isinstance(each, CallQuestion)]
    others = [each() for each in questions if not isinstance(each, CallQuestion | str)]
    answering = asyncio.gather(*others, return_exceptions=True)
    try:
        decided = await _decided(
            client, calls, session=session, context=context, timeout=timeout, facts=facts
        )
    except BaseException:
        answering.cancel()
        raise
    of_calls, of_others = iter(decided), iter(await answering)
    outcomes: list[CallOutcome | T] = []
    for each in questions:
        if isinstance(each, str):
            outcomes.append(each)
            continue
        came = next(of_calls) if isinstance(each, CallQuestion) else next(of_others)
        if isinstance(came, BaseException):
            raise came
        outcomes.append(came)
    if facts is None or time.monotonic() - began <= FACTS_MAX_AGE:
        return outcomes
    unasked = [
        number
        for number, outcome in enumerate(outcomes)
        if isinstance(outcome, Approval) and outcome.status == "not_required"
    ]
    if unasked:
        again = await all_outcomes(
            client,
            [questions[number] for number in unasked],
            session=session,
            context=context,
            timeout=timeout,
            facts=facts,
        )
        for number, outcome in zip(unasked, again, strict=True):
            outcomes[number] = outcome
    return outcomes


async def _decided(
    client: AsyncApprovalClient,
    calls: Sequence[CallQuestion],
    *,
    session: str | None,
    context: Any,
    timeout: WaitLimit,
    facts: FactsByTool,
) -> list[CallOutcome | BaseException]:
    """One batch, or several if there are too many calls for one."""
    proposed: dict[int, ProposedAction] = {}
    decisions: dict[int, Concluded] = {}
    for number, call in enumerate(calls):
        try:
            proposed[number] = call.proposed(context, facts)
        except MalformedArguments as error:
            decisions[number] = error
    ask = partial(client.ask_many, timeout=timeout, session=session_named(session))
    decided = await asyncio.gather(*(ask(part) for part in parted([*proposed.values()])))
    decisions |= zip(proposed, chain.from_iterable(decided), strict=True)
    outcomes = (_outcome(client, call, decisions[number]) for number, call in enumerate(calls))
    return await asyncio.gather(*outcomes, return_exceptions=True)


async def _outcome(client: AsyncApprovalClient, call: CallQuestion, decision: Concluded) -> CallOutcome:
    """Raises AlreadyClaimed, and every error that is no refusal."""
    if isinstance(decision, Approval):
        earlier = earlier_outcome(await client.get(decision.id)) if decision.id else None
        return earlier or decision
    if isinstance(decision, MalformedArguments):
        return unusable(call.tool, decision)
    denied = isinstance(decision, ApiError) and decision.status == DENIED
    silence = isinstance(decision, TimeoutError) and call.name is None
    if isinstance(decision, CollaborationError) or denied or silence:
        return f"{call.tool} was not done: {decision}"
    raise decision


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

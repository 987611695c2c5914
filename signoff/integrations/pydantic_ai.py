"""Tools of pydantic-ai that wait for people, and run once, with the decided arguments.

    approvals = PydanticAIApprovals(client)
    agent = Agent(model, tools=[…], output_type=[str, DeferredToolRequests], capabilities=[approvals])

    result = await agent.run(task)
    while isinstance(result.output, DeferredToolRequests):
        paused = PausedRun.of(result)  # store paused.to_json(), for a process that is started again
        answers = await approvals.answer(paused.requests, key="nightly-17")
        result = await agent.run(message_history=paused.messages, deferred_tool_results=answers)

A run of ``run_stream`` is paused as ``PausedRun(stream.all_messages(), await stream.get_output())``.

With ``timeout=0``, ``answer`` raises TimeoutError, and a webhook (``decision.made``) starts the process again, with a
sweep as fallback. With ``inside=True`` the run itself waits, nothing is stored, and questions that are not decided in
time are withdrawn.

A tool may also ask for an answer (`questions.Question`), which is then its result:

    raise CallDeferred(metadata={"question": "Which region?", "options": ["eu", "us"]}, kind="question")

The tool's own types read the model's arguments before anybody is asked, and the call keeps what they make of them, with
all defaults, as JSON. A value that changes each time it is read goes back to the model.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Self

from signoff.integrations.extras import missing_framework

try:
    from pydantic import TypeAdapter, ValidationError
    from pydantic_ai.capabilities import (
        AbstractCapability,
        RawToolArgs,
        ValidatedToolArgs,
        WrapToolExecuteHandler,
    )
    from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturn
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import (
        DeferredToolRequests,
        DeferredToolResults,
        RunContext,
        ToolApproved,
        ToolDefinition,
        ToolDenied,
    )
except ImportError as error:
    raise missing_framework("pydantic-ai", "pydantic-ai") from error

from signoff.client import AsyncApprovalClient, AttemptOutcome, ClaimedAction, GivenAnswer
from signoff.client.facts import FactsByTool, facts_of
from signoff.client.operations import VERSION, WaitLimit
from signoff.durations import Duration
from signoff.errors import MalformedArguments, SignoffError
from signoff.integrations.pydantic_ai_tool_types import arguments_of, check_judged, use_stable_form
from signoff.integrations.questions import Question, answer_to
from signoff.integrations.tool_calls import (
    TIMEOUT,
    CallName,
    CallOutcome,
    CallQuestion,
    all_outcomes,
    approval_note,
    report_outcome,
    unusable,
)
from signoff.json_form import malformed
from signoff.values import Action

MARK = "signoff"
"""Metadata key for a call's claim; an approval without it is not Signoff's."""

TURN = "signoff_turn"
"""Metadata key for the turn of a response and of a waiting call: the id of a call may come again in the next one."""

UNASKED = "not_required:"
"""Instead of a claim: policy allows the call with this digest without approval."""


@dataclass(frozen=True)
class PausedRun:
    """What a process needs to continue a waiting run: its history, and the output that it ended with."""

    messages: list[ModelMessage]
    requests: DeferredToolRequests

    def __post_init__(self) -> None:
        """Number the turn of `run_stream`, which hands out its calls and its history without `after_model_request`."""
        if not (unplaced := _without_turn(self.requests)):
            return
        turn, made = _numbered(self.messages), _last_response(self.messages).tool_calls
        _give_own_ids(made)
        for call in [*self.requests.approvals, *self.requests.calls]:  # copies of those, in their order
            same = [each for each in made if (each.tool_name, each.args) == (call.tool_name, call.args)]
            if same:
                call.tool_call_id = same[0].tool_call_id
                made.remove(same[0])
        for call in unplaced:
            known = self.requests.metadata.get(call.tool_call_id, {})
            self.requests.metadata[call.tool_call_id] = {**known, TURN: turn}

    @classmethod
    def of(cls, result: AgentRunResult[Any]) -> Self:
        """Raises ValueError if the run waits for nothing."""
        if not isinstance(result.output, DeferredToolRequests):
            raise ValueError("this run waits for nothing: its output is not DeferredToolRequests")  # noqa: TRY004
        return cls(result.all_messages(), result.output)

    def to_json(self) -> bytes:
        """Contains unmasked arguments."""
        return TypeAdapter(PausedRun).dump_json(self)

    @staticmethod
    def of_json(kept: bytes | str) -> PausedRun:
        """Raises pydantic's ValidationError."""
        return TypeAdapter(PausedRun).validate_json(kept)


@dataclass(frozen=True)
class _Given:
    """`note` describes a reviewer's change to the model."""

    claim: ClaimedAction
    note: str | None


class PydanticAIApprovals(AbstractCapability[Any]):
    """Approved tools run only under a claim, which is reported afterwards.

    ``timeout`` is how long ``answer`` waits for people, by default as long as policy says, or an hour. One instance
    serves any number of runs in one process.
    """

    def __init__(
        self,
        client: AsyncApprovalClient,
        *,
        timeout: Duration | None = None,
        inside: bool = False,
        facts: FactsByTool = None,
    ) -> None:
        self._client = client
        self._facts = facts
        self._timeout = WaitLimit.of(timeout, TIMEOUT)
        self._inside = inside
        self._given: dict[str, _Given] = {}

    async def answer(
        self,
        requests: DeferredToolRequests,
        *,
        key: str | None,
        context: Any = None,
        timeout: Duration | None = None,
        session: str | None = None,
    ) -> DeferredToolResults:
        """Claim every approved call and return the decisions, for the run that continues.

        ``key`` names the run (up to 80 letters, digits and ``_.:@~-``): the same key, from any process, resumes the
        same questions. ``session`` names the conversation (``result.conversation_id``); by default the run is one.
        Refused calls are denied to the model, with the reason. A call that an earlier process ran is answered with its
        outcome, and a call that asks for an answer with the answer. The caller adds results for other calls.

        Raises TimeoutError (with a key the questions stay open), AlreadyClaimed (the outcome of an earlier attempt is
        unknown), ApiError (for example, paused), Conflict and Unreachable, and ValueError for requests of `run_stream`
        that are not those of a PausedRun. Nothing is claimed then.
        """
        if _without_turn(requests):
            raise ValueError(
                "these calls do not say in which turn they were made, so one could get the answer of an earlier one: "
                "give the agent this capability, and `answer` the requests of a PausedRun, for `run_stream` "
                "PausedRun(stream.all_messages(), await stream.get_output()).requests"
            )
        limit = self._timeout if timeout is None else WaitLimit.of(timeout)
        asked: list[CallQuestion | Callable[[], Awaitable[GivenAnswer | str]] | str] = [
            CallQuestion(
                call.tool_name, call.args, None if key is None else CallName(key, _place(requests, call))
            )
            for call in requests.approvals
        ]
        questions = _questions(requests)
        asked += [
            partial(self._ask_for, requests, call, key, session or key, context, limit) for call in questions
        ]
        outcomes = await all_outcomes(
            self._client, asked, session=session or key, context=context, timeout=limit, facts=self._facts
        )
        results = DeferredToolResults()
        for call, outcome in zip([*requests.approvals, *questions], outcomes, strict=True):
            if isinstance(outcome, GivenAnswer):
                results.calls[call.tool_call_id] = ToolReturn(outcome.value)
                results.answered_by[call.tool_call_id] = ", ".join(outcome.answered_by)
            elif call in questions:
                results.calls[call.tool_call_id] = ToolFailed(str(outcome))
            else:
                await self._give(results, call, outcome, requests.metadata.get(call.tool_call_id, {}), limit)
        return results

    # --- while the agent runs ------------------------------------------------------------------------------

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Questions not decided in time are denied to the model."""
        if not self._inside or not (requests.approvals or _questions(requests)):
            return None
        paused = PausedRun([*ctx.messages], requests)
        return await self.answer(paused.requests, key=None, session=ctx.conversation_id or ctx.run_id)

    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,  # noqa: ARG002
        response: ModelResponse,
    ) -> ModelResponse:
        """Number the turn, and give each of its calls an id of its own."""
        response.metadata = {**(response.metadata or {}), TURN: _turn_after(ctx.messages)}
        _give_own_ids(response.tool_calls)
        return response

    async def after_tool_validate(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: ValidatedToolArgs
    ) -> ValidatedToolArgs:
        """Give the call the arguments that people are asked about, and defer it with its turn.

        Raises ModelRetry if the arguments are not stable.
        """
        if tool_def.kind == "unapproved" and not ctx.tool_call_approved:
            use_stable_form(ctx, call)
            raise ApprovalRequired(metadata={TURN: _numbered(ctx.messages)})
        return args

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,  # noqa: ARG002
        args: ValidatedToolArgs,
        handler: WrapToolExecuteHandler,
    ) -> Any:
        """A cancelled call is left for people to settle. Raises SignoffError."""
        if not ctx.tool_call_approved:
            try:
                return await handler(args)
            except ApprovalRequired as required:
                use_stable_form(ctx, call)
                placed = {**(required.metadata or {}), TURN: _numbered(ctx.messages)}
                raise ApprovalRequired(metadata=placed) from None
            except CallDeferred as deferred:
                if deferred.kind != "question":
                    raise
                placed = {**(deferred.metadata or {}), TURN: _numbered(ctx.messages)}
                raise CallDeferred(metadata=placed, kind=deferred.kind) from None
        mark = _mark(ctx) or ""
        if mark == UNASKED + _digest(call):
            check_judged(call, args, arguments_of(call))
            return await handler(args)
        given = self._given.pop(mark, None)
        if given is None:
            raise SignoffError(f"{call.tool_name} was not approved through Signoff, so it does not run")
        began = time.monotonic()
        if given.claim.digest != _digest(call):
            error = SignoffError(
                f"the approved call is not this call of {call.tool_name}, so it does not run"
            )
            await report_outcome(self._client, given.claim, began, error=error)
            raise error
        try:
            check_judged(call, args, given.claim.arguments)
            result = await handler(args)
        except Exception as error:
            await report_outcome(self._client, given.claim, began, error=error)
            raise
        plain = result.return_value if isinstance(result, ToolReturn) else result
        await report_outcome(self._client, given.claim, began, result=plain)
        if given.note and not isinstance(result, ToolReturn):
            return ToolReturn(result, content=given.note)
        return result

    async def on_tool_validate_error(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,  # noqa: ARG002
        tool_def: ToolDefinition,  # noqa: ARG002
        args: RawToolArgs,  # noqa: ARG002
        error: Any,
    ) -> ValidatedToolArgs:
        """A reviewer's edit does not fit the tool: nothing runs, and the card says so."""
        given = self._given.pop(_mark(ctx) or "", None)
        if given is not None:
            await report_outcome(self._client, given.claim, time.monotonic(), error=error)
        raise error

    # --- parts -----------------------------------------------------------------------------------------------

    async def _ask_for(
        self,
        requests: DeferredToolRequests,
        call: ToolCallPart,
        key: str | None,
        session: str | None,
        context: Any,
        limit: WaitLimit,
    ) -> GivenAnswer | str:
        """The answer, or why there is none."""
        known = {name: each for name, each in requests.metadata[call.tool_call_id].items() if name != TURN}
        try:
            question = Question.model_validate(known)
            name = None if key is None else CallName(key, _place(requests, call))
            named = None if name is None else name.key(call.tool_name, arguments_of(call))
        except ValidationError as error:
            return unusable(call.tool_name, malformed(error))
        except MalformedArguments as error:
            return unusable(call.tool_name, error)
        return await answer_to(
            self._client, question, key=named, session=session, context=context, timeout=limit
        )

    async def _give(
        self,
        results: DeferredToolResults,
        call: ToolCallPart,
        outcome: CallOutcome,
        known: Mapping[str, Any],
        limit: WaitLimit,
    ) -> None:
        """Deny a call that cannot be claimed after another was claimed."""
        name = call.tool_call_id
        if isinstance(outcome, str):
            results.approvals[name] = ToolDenied(outcome)
        elif isinstance(outcome, AttemptOutcome):
            results.calls[name] = ToolReturn(outcome.text) if outcome.succeeded else ToolFailed(outcome.text)
        elif outcome.status == "not_required":
            results.approvals[name] = ToolApproved()
            results.metadata[name] = {**known, MARK: UNASKED + _digest(call)}
        else:
            try:
                facts = facts_of(self._facts, call.tool_name)
                claim = await self._client.claim(outcome, facts=facts, timeout=limit)
            except (SignoffError, TimeoutError) as error:
                if all(each[MARK].startswith(UNASKED) for each in results.metadata.values()):
                    raise  # nothing is claimed, so all can be asked again later
                results.approvals[name] = ToolDenied(f"{call.tool_name} was not done: {error}")
                return
            self._given[claim.execution_id] = _Given(claim, approval_note(outcome))
            changed = dict(claim.arguments) if claim.edited else None
            results.approvals[name] = ToolApproved(override_args=changed)
            results.metadata[name] = {**known, MARK: claim.execution_id}
            if outcome.reviewer:
                results.answered_by[name] = outcome.reviewer


def _turn_after(messages: Sequence[ModelMessage]) -> int:
    """The number of the next turn. It is counted on from what a shortened history still has."""
    number = 0
    for each in messages:
        if isinstance(each, ModelResponse):
            known = (each.metadata or {}).get(TURN)
            number = known if isinstance(known, int) else number + 1
    return number + 1


def _last_response(messages: Sequence[ModelMessage]) -> ModelResponse:
    """Raises ValueError."""
    found = [each for each in messages if isinstance(each, ModelResponse)]
    if not found:
        raise ValueError("the history of a waiting run ends with the model's response")
    return found[-1]


def _numbered(messages: Sequence[ModelMessage]) -> int:
    """The number of the last response, which keeps it: a history may be shortened later."""
    last = _last_response(messages)
    number = (last.metadata or {}).get(TURN)
    if not isinstance(number, int):
        number = _turn_after([each for each in messages if each is not last])
        last.metadata = {**(last.metadata or {}), TURN: number}
    return number


def _questions(requests: DeferredToolRequests) -> list[ToolCallPart]:
    """Calls that ask for an answer, and say for which."""
    return [
        each
        for each in requests.calls
        if requests.kind(each.tool_call_id) == "question"
        and "question" in requests.metadata.get(each.tool_call_id, {})
    ]


def _without_turn(requests: DeferredToolRequests) -> list[ToolCallPart]:
    asked = [*requests.approvals, *_questions(requests)]
    return [each for each in asked if TURN not in requests.metadata.get(each.tool_call_id, {})]


def _place(requests: DeferredToolRequests, call: ToolCallPart) -> tuple[int | None, str]:
    return requests.metadata.get(call.tool_call_id, {}).get(TURN), call.tool_call_id


def _give_own_ids(calls: Sequence[ToolCallPart]) -> None:
    """A call without an id, or with one that is taken, gets the next free one."""
    given, taken = {each.tool_call_id for each in calls}, set[str]()
    for call in calls:
        own = call.tool_call_id
        if not own or own in taken:
            numbered = (f"{own or call.tool_name}~{number}" for number in count(2))
            call.tool_call_id = next(each for each in numbered if each not in given | taken)
            call.id = None  # a provider would send its own copy of the call instead
        taken.add(call.tool_call_id)


def _digest(call: ToolCallPart) -> str:
    return Action(call.tool_name, VERSION, arguments_of(call)).digest.hex()


def _mark(ctx: RunContext[Any]) -> str | None:
    metadata = ctx.tool_call_metadata
    mark = metadata.get(MARK) if isinstance(metadata, Mapping) else None
    return mark if isinstance(mark, str) else None

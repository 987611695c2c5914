"""OpenAI Agents SDK: tools that need approval wait for people, and run once, with the decided arguments.

    approvals = OpenAIApprovals(client)
    agent = Agent(name="cleaner", tools=[approvals.guard(delete_records)])  # a FunctionTool, `@function_tool` makes it
    result = await approvals.run(agent, "Delete 50 old users", key="nightly-17", store=FileRunStore("runs"))

``run`` keeps the RunState of a waiting run in a store, and continues it when called again with the same key. With
``OpenAIApprovals(client, timeout=0)`` it ends with TimeoutError, and a webhook (``decision.made``) starts the process
again, with a sweep as fallback. Programs with their own loop call ``decide(state, key=…)``.

The SDK cannot change the arguments of a call, so the guard claims, and passes the decided arguments to the tool.
``state.approve`` without a decision from Signoff runs nothing.

Before anybody is asked, the model's arguments must fit the tool's public JSON schema as they are (`"yes"` is no
boolean), and defaults are filled in. For a tool made by `@function_tool`, the function's own types read them, too. What
the code of any other FunctionTool converts beyond its schema, nobody sees.
"""

from __future__ import annotations

import copy
import inspect
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any

from signoff.integrations.extras import missing_framework

try:
    from agents import Agent, AgentHooks, FunctionTool, Runner, RunState, function_tool
    from agents.agent import AgentBase
    from agents.agent_tool_state import peek_agent_tool_run_result
    from agents.exceptions import UserError
    from agents.items import ModelResponse, ToolApprovalItem
    from agents.result import RunResult
    from agents.run_context import RunContextWrapper
    from agents.tool import (
        maybe_invoke_function_tool_failure_error_function,
        set_function_tool_failure_error_function,
    )
    from agents.tool_context import ToolContext
    from openai.types.responses import ResponseFunctionToolCall

    from signoff.integrations.openai_tool_types import ToolTypes
except ImportError as error:
    raise missing_framework("the OpenAI Agents SDK", "openai-agents") from error

from signoff.canonical import canonical_bytes, parse_arguments
from signoff.client import Approval, AsyncApprovalClient, AttemptOutcome, ClaimedAction
from signoff.client.facts import FactsByTool, facts_of
from signoff.client.operations import WaitLimit
from signoff.durations import Duration
from signoff.errors import CollaborationError, MalformedArguments, SignoffError
from signoff.integrations.openai_run_store import FileRunStore, RunStore
from signoff.integrations.questions import FREE_TEXT, Question, answer_to
from signoff.integrations.tool_calls import (
    TIMEOUT,
    CallName,
    CallOutcome,
    CallQuestion,
    all_outcomes,
    report_outcome,
    shared_id,
    unusable,
    with_note,
)

__all__ = ["FileRunStore", "OpenAIApprovals", "RunStore", "ask_people"]

Call = tuple[str | None, str, str, bytes]
"""Run, call id and exact action: models repeat call ids across runs."""

RUN: ContextVar[str | None] = ContextVar("signoff_run", default=None)
"""The run that this task continues; the SDK does not pass a tool its run."""


class OpenAIApprovals:
    """``timeout`` is how long ``run`` and ``decide`` wait for people, by default as long as policy says, or an hour.

    ``facts`` are functions by tool. One instance serves any number of runs.
    """

    def __init__(
        self, client: AsyncApprovalClient, *, timeout: Duration | None = None, facts: FactsByTool = None
    ) -> None:
        self._client = client
        self._timeout = WaitLimit.of(timeout, TIMEOUT)
        self._facts = facts
        self._decided: dict[Call, tuple[Approval | AttemptOutcome, WaitLimit]] = {}

    def guard(self, tool: FunctionTool) -> FunctionTool:
        """Require approval for every call of this tool, unless policy allows it without.

        An exception is reported as failure, even if ``failure_error_function`` turns it into a message for the model.
        The ``tool_input_guardrails`` see the model's arguments, not an edit.
        """
        inner = copy.copy(tool)
        types = ToolTypes.of(tool)
        raised: dict[tuple[str | None, str, str], Exception] = {}

        async def failed(context: RunContextWrapper[Any], error: Exception) -> str:
            words = await maybe_invoke_function_tool_failure_error_function(
                function_tool=tool, context=context, error=error
            )
            if words is None:
                raise error
            if isinstance(context, ToolContext):
                raised[RUN.get(), context.tool_call_id, context.tool_arguments] = error
            return words

        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            outcome, limit = self._taken(tool.name, context.tool_call_id, arguments)
            if isinstance(outcome, AttemptOutcome):
                return _words(outcome)
            if outcome.status == "not_required":
                return await inner.on_invoke_tool(context, json.dumps(outcome.arguments))
            claim = await self._claim(tool.name, outcome, limit)
            if isinstance(claim, str):
                return claim
            given = json.dumps(claim.arguments)
            began = time.monotonic()
            try:
                types.check_judged(claim.arguments)
            except MalformedArguments as error:
                await report_outcome(self._client, claim, began, error=error)
                return f"{tool.name} was not done: {error}"
            try:
                result = await inner.on_invoke_tool(context, given)
            except Exception as error:
                await report_outcome(self._client, claim, began, error=error)
                raise
            hidden = raised.pop((RUN.get(), context.tool_call_id, context.tool_arguments), None)
            await report_outcome(self._client, claim, began, result=result, error=hidden)
            return with_note(result, outcome)

        set_function_tool_failure_error_function(inner, failed)
        guarded = copy.copy(tool)
        guarded.on_invoke_tool = _Guarded(invoke, types)
        guarded.needs_approval = True
        guarded.is_enabled = partial(_enabled, tool)
        return guarded

    def _taken(self, name: str, call_id: str, arguments: str) -> tuple[Approval | AttemptOutcome, WaitLimit]:
        """Raises SignoffError."""
        decided = self._decided.pop(_call(RUN.get(), name, call_id, arguments), None)
        if decided is None:
            raise SignoffError(
                f"{name} was not approved through Signoff, so it does not run "
                "(or `decide` was not awaited for this run, in its task, right before it)"
            )
        return decided

    async def _claim(self, name: str, approval: Approval, limit: WaitLimit) -> ClaimedAction | str:
        """A text: people were asked again, and refused."""
        try:
            return await self._client.claim(approval, facts=facts_of(self._facts, name), timeout=limit)
        except CollaborationError as refusal:
            return f"{name} was not done: {refusal}"

    async def run(
        self, agent: Agent[Any], task: Any, *, key: str, store: RunStore, context: Any = None, **options: Any
    ) -> RunResult:
        """``Runner.run`` until the agent is done. A run stored under this key continues, and ``task`` is ignored.

        Raises what ``Runner.run`` and ``decide`` raise; the run then stays stored.
        """
        kept = await store.read(key)
        while True:
            if kept is None:
                result = await Runner.run(agent, task, context=context, **options)
            else:
                own = None if context is None else RunContextWrapper(context)
                state = await RunState.from_string(agent, kept, context_override=own)
                await self.decide(state, key=key, session=_session_of(options))
                result = await Runner.run(agent, state, **options)
            if not result.interruptions:
                await store.remove(key)
                return result
            kept = result.to_state().to_string()
            await store.write(key, kept)

    async def decide(
        self,
        state: RunState[Any, Any],
        *,
        key: str,
        context: Any = None,
        timeout: Duration | None = None,
        session: str | None = None,
    ) -> None:
        """Approve or reject every interruption in the state, as people decide.

        ``key`` names the run (up to 80 letters, digits and ``_.:@~-``): the same key, from any process, resumes the
        same questions. ``session`` names the conversation; by default the run is one. Refused calls, and calls of
        unguarded tools, are rejected with the reason as message. A call that an earlier process ran is answered with
        its outcome. Await it in the task that then runs the agent with this state, one run after the other: that is how
        a guard knows its run.

        Raises TimeoutError (the questions stay open), AlreadyClaimed (the outcome of an earlier attempt is unknown),
        ApiError, Conflict and Unreachable, and SignoffError for a call that cannot be told from another one that waits
        in another run of an agent which is a tool; nobody is then asked. The state is then unchanged.
        """
        limit = self._timeout if timeout is None else WaitLimit.of(timeout)
        items = state.get_interruptions()
        asked = [_question(item, CallName(key, _place(state, item))) for item in items]
        outcomes: list[CallOutcome] = await all_outcomes(
            self._client, asked, session=session or key, context=context, timeout=limit, facts=self._facts
        )
        for item, outcome in zip(items, outcomes, strict=True):
            if isinstance(outcome, str):
                state.reject(item, rejection_message=outcome)
            else:
                self._decided[_call(key, item.name, item.call_id, item.arguments)] = outcome, limit
                state.approve(item)
        RUN.set(key)


def ask_people(
    client: AsyncApprovalClient, *, timeout: Duration | None = None, session: str | None = None
) -> FunctionTool:
    """Return a tool with which a model asks people for one of some options, or in their own words.

    ``timeout`` is how long it waits, by default as long as policy says, or an hour; ``session`` names the conversation.
    It waits within the tool, so a killed program asks again. What people answer authorises nothing.
    """
    limit = WaitLimit.of(timeout, TIMEOUT)

    async def ask_people(question: str, options: list[str] | None = None) -> str:
        """Ask people a question and wait for their answer, which may take long.

        Args:
            question: What you need to know, with all that people need to answer it.
            options: The answers to choose from; people may answer otherwise. None lets them write.
        """
        wanted = Question(question=question, options=options or None, form=None if options else FREE_TEXT)
        given = await answer_to(client, wanted, key=None, session=session, context=None, timeout=limit)
        if isinstance(given, str):
            return given
        return f"People answered: {given.value if options else given.value['answer']}"

    return function_tool(ask_people)


def _question(item: ToolApprovalItem, call: CallName) -> CallQuestion | str:
    """A text says why nobody is asked."""
    if (guard := _guard_of(item)) is None:
        return f"{item.name} did not run: it has no guard, so Signoff cannot ask about it"
    name = str(item.name)
    try:
        arguments = guard.types.form(parse_arguments(item.arguments or "{}"))
    except MalformedArguments as error:
        return unusable(name, error)
    return CallQuestion(name, arguments, call)


def _words(earlier: AttemptOutcome) -> str:
    return earlier.text if earlier.succeeded else "It failed in an earlier attempt, and was not repeated."


def _place(state: RunState[Any, Any], item: ToolApprovalItem) -> list[str | int | None]:
    """Ids of calls may begin again each time that an agent which is a tool runs, so each run around the call is named.

    Raises SignoffError.
    """
    try:
        inner = state._find_nested_approval_state(item)  # noqa: SLF001 - the SDK shows it nowhere
    except UserError as error:
        raise _unplaced(item) from error
    if inner is None:
        return [item.call_id]
    ways = _ways(state, inner[0])
    if len(ways) != 1:
        raise _unplaced(item)
    return [*ways[0], item.call_id]


def _ways(state: RunState[Any, Any], owner: RunState[Any, Any]) -> list[list[str | int | None]]:
    """From a run to one within it: at each run its turn, its calls so far, and the call that runs the next agent."""
    before = [call.call_id for each in state._model_responses for call in _calls(each)]  # noqa: SLF001
    place: list[str | int | None] = [len(state._model_responses), *before]  # noqa: SLF001
    if state is owner:
        return [place]
    processed = state._last_processed_response  # noqa: SLF001
    ways = []
    for each in processed.functions if processed else ():
        running = peek_agent_tool_run_result(each.tool_call, scope_id=state._agent_tool_state_scope_id)  # noqa: SLF001
        inner = None if running is None else running.to_state()
        if inner is not None and inner is not state:
            ways += [[*place, each.tool_call.call_id, *way] for way in _ways(inner, owner)]
    return ways


def _unplaced(call: ToolApprovalItem | ResponseFunctionToolCall) -> SignoffError:
    return SignoffError(unusable(str(call.name), shared_id(call.call_id)))


def _calls(response: ModelResponse) -> list[ResponseFunctionToolCall]:
    return [each for each in response.output if isinstance(each, ResponseFunctionToolCall)]


async def _enabled(tool: FunctionTool, context: RunContextWrapper[Any], agent: AgentBase[Any]) -> bool:
    """The SDK asks before each turn of each agent that has the tool: the only place to see what it then drops."""
    if isinstance(agent, Agent) and not isinstance(agent.hooks, _WatchedHooks):
        agent.hooks = _WatchedHooks(agent.hooks)
    if isinstance(tool.is_enabled, bool):
        return tool.is_enabled
    enabled = tool.is_enabled(context, agent)
    return await enabled if inspect.isawaitable(enabled) else enabled


class _WatchedHooks(AgentHooks[Any]):
    """The agent's own hooks, and a refusal of calls that share an id.

    The SDK takes such a call for the other one: it does not run it, asks about it nowhere, and says nothing.
    """

    def __init__(self, own: AgentHooks[Any] | None) -> None:
        self._own = own
        for name in dir(own):
            if name.startswith("on_") and name != "on_llm_end":
                setattr(self, name, getattr(own, name))

    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Raises SignoffError."""
        guarded = {each.name for each in agent.tools if _guard_in(each)}
        seen: set[str] = set()
        for call in _calls(response):
            if call.name not in guarded:
                continue
            # What is decided about all calls of the tool says nothing about this one.
            decided = [context.is_tool_approved(call.name, name) for name in (call.call_id, "any")]
            if call.call_id in seen or (decided[0] is not None and decided[1] is None):
                raise _unplaced(call)
            seen.add(call.call_id)
        if self._own is not None:
            await self._own.on_llm_end(context, agent, response)


def _session_of(options: Mapping[str, Any]) -> str | None:
    """The SDK's own name for the conversation: its session, the provider's conversation, the group of traces."""
    config = options.get("run_config")
    group = config.get("group_id") if isinstance(config, Mapping) else getattr(config, "group_id", None)
    return getattr(options.get("session"), "session_id", None) or options.get("conversation_id") or group


class _Guarded:
    def __init__(self, invoke: Callable[[ToolContext[Any], str], Awaitable[Any]], types: ToolTypes) -> None:
        self._invoke = invoke
        self.types = types

    async def __call__(self, context: ToolContext[Any], arguments: str) -> Any:
        return await self._invoke(context, arguments)


def _guard_of(item: ToolApprovalItem) -> _Guarded | None:
    guards = [_guard_in(tool) for tool in item.agent.tools if tool.name == item.name]
    return guards[0] if len(guards) == 1 else None


def _guard_in(tool: Any) -> _Guarded | None:
    guard = getattr(tool, "on_invoke_tool", None)
    return guard if isinstance(guard, _Guarded) else None


def _call(run: str | None, name: str | None, call_id: str | None, arguments: str | None) -> Call:
    return run, call_id or "", name or "", canonical_bytes(parse_arguments(arguments or "{}"))

"""Agno tools that wait for people, and run once, with the decided arguments.

    approvals = AgnoApprovals(client)

    @approvals.guard
    @tool(requires_confirmation=True)
    def delete_records(table_name: str, count: int) -> str: ...

    agent = Agent(id="cleaner", model=model, tools=[delete_records], db=PostgresDb(url))
    run = await approvals.run(agent, "Delete 50 old users", key="nightly-17")

Agno stores a paused run in the agent's database, where ``run`` with the same key finds it after a restart;
``answering`` finds runs that something else started, such as AgentOS. An agent may be a team. Guarded tools run neither
by ``confirmed`` alone nor in ``agent.run``: use ``arun``. Before anybody is asked, the tool's own types read the
model's arguments (Agno's ``validate_call`` converts `"yes"` to true), and defaults are filled in.

``AgnoApprovals(client, ask_for_input=True)`` also asks people for the input of tools with ``requires_user_input``, and
for what ``UserControlFlowTools`` and ``UserFeedbackTools`` ask. Such a tool runs with the answers: guard others.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any, cast
from weakref import WeakValueDictionary

from signoff.integrations.extras import missing_framework

try:
    from agno.exceptions import RunCancelledException
    from agno.models.response import ToolExecution
    from agno.run.base import RunStatus
    from agno.run.requirement import RunRequirement
    from agno.team import Team
    from agno.tools import tool
    from agno.tools.function import Function, FunctionCall, ToolResult
    from pydantic import ConfigDict, PydanticUserError
except ImportError as error:
    raise missing_framework("Agno", "agno") from error

from signoff.canonical import canonical_bytes
from signoff.client import Approval, AsyncApprovalClient, AttemptOutcome, ClaimedAction, GivenAnswer
from signoff.client.facts import FactsByTool, facts_of
from signoff.client.operations import WaitLimit
from signoff.durations import Duration
from signoff.errors import CollaborationError, MalformedArguments, SignoffError
from signoff.integrations.agno_inputs import fill_in, question_of
from signoff.integrations.agno_open_questions import OpenQuestions
from signoff.integrations.agno_paused_runs import (
    UNFINISHED,
    Run,
    RunLeft,
    Runner,
    continued_run,
    functions_named,
    has_ended,
    id_of,
    is_cancelled,
    latest_of,
    paused_runs,
    run_asking,
    store_cancelled,
    stored_run,
    task_of,
)
from signoff.integrations.questions import answer_to
from signoff.integrations.tool_calls import (
    TIMEOUT,
    CallName,
    CallQuestion,
    all_outcomes,
    report_outcome,
    shared_id,
    unusable,
    with_note,
)
from signoff.json_form import form_as_read, judged_values, reader_of, written_by_type

log = logging.getLogger("signoff.client")

Reader = Callable[[Mapping[str, Any]], Mapping[str, Any]]

Call = tuple[str, str, bytes]
"""Run, call id and exact action."""


@dataclass(frozen=True)
class _Decided:
    """`run` is the outermost one, such as the team's; `limit`: how long the claim may wait for people."""

    run: str
    outcome: Approval | AttemptOutcome
    limit: WaitLimit
    claim: ClaimedAction | None = None


class AgnoApprovals:
    """``timeout`` is how long ``run`` and ``resume`` wait for people, by default as long as policy says, or an hour.
    ``facts`` are functions by tool. With ``ask_for_input`` people are also asked for what a run waits for a person to
    fill in (not that of a team, which cannot go on without it).

    One instance serves any number of agents and runs.
    """

    def __init__(
        self,
        client: AsyncApprovalClient,
        *,
        timeout: Duration | None = None,
        facts: FactsByTool = None,
        ask_for_input: bool = False,
    ) -> None:
        self._client = client
        self._ask_for_input = ask_for_input
        self._timeout = WaitLimit.of(timeout, TIMEOUT)
        self._facts = facts
        self._decided: dict[Call, _Decided] = {}
        self._open = OpenQuestions(client)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def guard(self, given: Function | Callable[..., Any]) -> Function:
        """Require confirmation for every call of this tool.

        Raises TypeError for a generator, whose effects come after its return, and ValueError for a tool that takes user
        input or is executed externally.
        """
        function = given if isinstance(given, Function) else tool(given)
        inner = function.entrypoint
        if inner is None or function.requires_user_input or function.external_execution:
            words = "takes a person's input or is executed elsewhere, so it cannot be guarded"
            raise ValueError(f"{function.name} {words}")
        plain = inspect.unwrap(inner)
        if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
            raise TypeError(f"{function.name} is a generator; guard a function that returns its result")

        takes_call = "fc" in inspect.signature(inner).parameters
        read = _reader(function, inner)

        @wraps(inner)
        async def guarded(*, fc: FunctionCall, **values: Any) -> Any:
            return await self._called(inner, read, fc, {**values, "fc": fc} if takes_call else values)

        for name, value in {
            "__signature__": _signature_with_call(inner),
            "_wrapped_for_validation": True,  # the inner function validates the decided arguments
            "signoff_guard": self,
            "signoff_read": read,
        }.items():
            setattr(guarded, name, value)
        copied = function.model_copy()
        copied.entrypoint = guarded
        copied.requires_confirmation = True
        copied.cache_results = False
        return copied

    async def run(self, agent: Runner, task: Any, *, key: str, **options: Any) -> Run:
        """``agent.arun`` until the agent is done.

        ``key`` is Agno's ``run_id``: an existing run continues, even after its process was killed; a finished one is
        returned unchanged. ``session_id`` defaults to the key. Raises what ``resume`` raises, and ValueError for an
        agent without a database. Like ``arun``, it returns a run with status ``ERROR`` if the agent failed; the next
        call continues it.
        """
        found = await stored_run(agent, key)
        if found is None:
            own = {"session_id": key, **options}
            found = await agent.arun(task, run_id=key, stream=False, **own)
        elif found.status in UNFINISHED:
            found = await continued_run(agent, found)
        return await self.resume(agent, found)

    async def resume(self, agent: Runner, run: Run, *, timeout: Duration | None = None) -> Run:
        """Ask people about every call that awaits confirmation and continue the run until it is done.

        Another call, from any process, resumes the same questions; only one process at a time may drive a run. Refused
        calls, and calls of unguarded tools, are rejected with the reason as note. A call that an earlier process ran is
        answered with its outcome. A run that also waits for external execution, or for input that people are not asked
        for, is returned: set that in its ``requirements`` and call this again. A cancelled run is stored as such and
        returned.

        Raises TimeoutError (the questions stay open), AlreadyClaimed (the outcome of an earlier attempt is unknown),
        ApiError, Conflict and Unreachable. The run then stays paused.
        """
        limit = self._timeout if timeout is None else WaitLimit.of(timeout)
        async with self._lock(id_of(run)):
            present = latest_of(run, await stored_run(agent, id_of(run)))
            while present.is_paused:
                if await is_cancelled(id_of(run)):
                    await store_cancelled(agent, present)
                    break
                await self._decide(agent, present, limit)
                if not all(each.is_resolved() for each in present.requirements or ()):
                    break
                asking = {id_of(run), *(run_asking(run, each) for each in present.requirements or ())}
                try:
                    present = await self._continued(agent, present)
                finally:
                    await self._forget(asking)
                self._open.forget(agent, id_of(run))
            if present.status is RunStatus.cancelled:
                await self._open.close_cancelled(agent, id_of(run))
            return present

    async def resume_paused(self, agent: Runner) -> list[Run]:
        """Continue the agent's paused runs whose calls are all decided, and return them.

        Questions of runs that went on without an answer are withdrawn. Does not wait. Failures are logged and retried
        by the next check.
        """
        resumed = []
        paused = await paused_runs(agent)
        known = {id_of(each) for each in paused}
        await self._open.find(agent, known)
        for each in paused:
            if self._lock(id_of(each)).locked():
                continue
            try:
                run = await self.resume(agent, each, timeout=0)
            except SignoffError as error:
                log.warning("the run %s stays paused: %s", each.run_id, error)
                continue
            except TimeoutError:
                continue
            if run.status not in (RunStatus.paused, RunStatus.cancelled):
                resumed.append(run)
        await self._open.close_left(agent, lambda run_id: run_id in known or self._lock(run_id).locked())
        return resumed

    @asynccontextmanager
    async def answering(self, *agents: Runner, every: float = 2.0) -> AsyncIterator[None]:
        """Check these agents' paused runs every few seconds.

        As a lifespan of AgentOS: ``AgentOS(agents=[agent], lifespan=lambda app: approvals.answering(agent))``.
        """
        stopping = asyncio.Event()
        looks = asyncio.create_task(self._look_until(stopping, agents, every))
        try:
            yield
        finally:
            stopping.set()
            await looks

    # --- parts -----------------------------------------------------------------------------------------------

    async def _look_until(self, stopping: asyncio.Event, agents: tuple[Runner, ...], every: float) -> None:
        while not stopping.is_set():
            for agent in agents:
                try:
                    await self.resume_paused(agent)
                except Exception:
                    log.exception("could not look for paused runs of %s; retrying", agent.id)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), every)

    async def _continued(self, agent: Runner, run: Run) -> Run:
        """Unless it was ended or cancelled while people were deciding."""
        stored = await stored_run(agent, id_of(run))
        if stored is not None and has_ended(stored):
            return stored
        return run if await is_cancelled(id_of(run)) else await continued_run(agent, run)

    async def _decide(self, agent: Runner, run: Run, limit: WaitLimit) -> None:
        asking = self._ask_for_input and not isinstance(agent, Team)
        waiting = [
            each
            for each in run.requirements or ()
            if each.needs_confirmation or (asking and each.needs_user_input)
        ]
        calls = [cast("ToolExecution", each.tool_execution) for each in waiting]
        names = [
            (run_asking(run, each), call.tool_call_id) for each, call in zip(waiting, calls, strict=True)
        ]
        number = Counter(names)
        with self._open.asked_again(agent, id_of(run)):
            asked = [
                await self._question(agent, run, each, number[name] == 1, limit)
                for each, name in zip(waiting, names, strict=True)
            ]
            outcomes = await all_outcomes(
                self._client,
                asked,
                session=run.session_id,
                context=task_of(run),
                timeout=limit,
                facts=self._facts,
            )
        decided = [
            each if isinstance(each, str | GivenAnswer) else _Decided(id_of(run), each, limit)
            for each in outcomes
        ]
        if isinstance(agent, Team):
            decided = await self._claimed(decided)
        for requirement, name, call, each in zip(waiting, names, calls, decided, strict=True):
            if isinstance(each, _Decided):
                self._decided[_call(*name, call.tool_args)] = each
                requirement.confirm()  # type: ignore[no-untyped-call]
            elif requirement.needs_user_input:
                fill_in(requirement, each)
            else:
                requirement.reject(cast("str", each))

    async def _claimed(
        self, decided: Sequence[_Decided | GivenAnswer | str]
    ) -> list[_Decided | GivenAnswer | str]:
        """A team goes on without a member that fails, so nothing may keep the member's tool from starting."""
        claimed: list[_Decided | GivenAnswer | str] = []
        try:
            for each in decided:
                try:
                    claimed.append(
                        replace(each, claim=await self._claim(each)) if isinstance(each, _Decided) else each
                    )
                except CollaborationError as refusal:  # people were asked again and refused
                    claimed.append(f"it was not done: {refusal}")
        except BaseException:
            await self._give_back(claimed)
            raise
        return claimed

    async def _claim(self, decided: _Decided) -> ClaimedAction | None:
        """None if there is nothing to claim. Raises what `claim` raises."""
        outcome = decided.outcome
        if isinstance(outcome, AttemptOutcome) or outcome.status == "not_required":
            return None
        facts = facts_of(self._facts, outcome.action)
        return await self._client.claim(outcome, facts=facts, timeout=decided.limit)

    async def _give_back(self, decided: Iterable[_Decided | GivenAnswer | str]) -> None:
        for each in decided:
            if isinstance(each, _Decided) and each.claim is not None:
                error = SignoffError("not begun: the run went on, or stopped, without it")
                await report_outcome(self._client, each.claim, time.monotonic(), error=error)

    async def _question(
        self, agent: Runner, run: Run, waiting: RunRequirement, once: bool, limit: WaitLimit
    ) -> CallQuestion | Callable[[], Awaitable[GivenAnswer | str]] | str:
        """Agno cannot tell two calls of a turn apart by one id, so it could run one with the arguments of the other."""
        call = cast("ToolExecution", waiting.tool_execution)
        name, given = str(call.tool_name), call.tool_args or {}
        if await is_cancelled(run_asking(run, waiting)):
            return f"{name} did not run: its run was cancelled"
        if not once:
            return unusable(name, shared_id(call.tool_call_id))
        if waiting.needs_user_input:
            return partial(self._input, agent, run, waiting, limit)
        if (read := self._reader_of(agent, waiting, call.tool_name)) is None:
            return f"{name} did not run: it has no guard, so Signoff cannot ask about it"
        try:
            arguments = form_as_read(read, given)
        except MalformedArguments as error:
            return unusable(name, error)
        # Agno stores a requirement before anybody is asked: a run that begins again after a kill has the same one, and
        # a run that was sent back to an earlier message has a new one for the same call in the same turn.
        question = CallName(id_of(run), [waiting.id])
        self._open.of(agent, id_of(run)).add(question.key(name, arguments))
        return CallQuestion(name, arguments, question)

    async def _input(
        self, agent: Runner, run: Run, waiting: RunRequirement, limit: WaitLimit
    ) -> GivenAnswer | str:
        """What people fill in, or why there is none."""
        name = str(cast("ToolExecution", waiting.tool_execution).tool_name)
        functions = functions_named(agent, waiting.member_agent_id, name)
        try:
            question = question_of(waiting, functions[0] if functions else None)
        except PydanticUserError as error:
            return unusable(name, SignoffError(f"people cannot be asked for this input: {error.message}"))
        key = CallName(id_of(run), [waiting.id]).key(name, {})
        self._open.of(agent, id_of(run)).add(key)
        return await answer_to(
            self._client, question, key=key, session=run.session_id, context=task_of(run), timeout=limit
        )

    def _reader_of(self, agent: Runner, waiting: RunRequirement, name: str | None) -> Reader | None:
        """None: nothing guards it."""
        functions = functions_named(agent, waiting.member_agent_id, name)
        if [getattr(each.entrypoint, "signoff_guard", None) for each in functions] != [self]:
            return None
        return cast("Reader", functions[0].entrypoint.signoff_read)  # type: ignore[union-attr]

    async def _called(
        self, inner: Callable[..., Any], read: Reader, call: FunctionCall, values: dict[str, Any]
    ) -> Any:
        """A cancelled call is left for people to settle."""
        name, asked = call.function.name, call.arguments or {}
        context = call.function._run_context  # noqa: SLF001 - Agno has no other way to tell a tool its run
        run_id = context.run_id if context else ""
        decided = self._decided.pop(_call(run_id, call.call_id, asked), None)
        if decided is None:
            raise SignoffError(f"{name} was not confirmed through Signoff, so it does not run")
        outcome = decided.outcome
        if isinstance(outcome, AttemptOutcome):
            if outcome.succeeded:
                return outcome.text
            raise SignoffError(f"{name} failed in an earlier attempt, and was not repeated")
        injected = {each: value for each, value in values.items() if each not in asked}
        await self._stop_if_cancelled(run_id, decided)
        if outcome.status == "not_required":
            return await _invoked(inner, injected | dict(outcome.arguments))
        try:
            claim = decided.claim or cast("ClaimedAction", await self._claim(decided))
        except CollaborationError as refusal:  # people were asked again
            return f"{name} was not done: {refusal}"
        except (SignoffError, TimeoutError) as reason:
            await self._stop_if_cancelled(run_id, decided)  # Agno forgets it with the run that is left
            raise RunLeft(reason) from reason
        await self._stop_if_cancelled(run_id, replace(decided, claim=claim))
        began = time.monotonic()
        try:
            judged_values(read, written_by_type, claim.arguments)
            result = await _invoked(inner, injected | dict(claim.arguments))
        except Exception as error:
            await report_outcome(self._client, claim, began, error=error)
            raise
        plain = result.content if isinstance(result, ToolResult) else result
        await report_outcome(self._client, claim, began, result=plain)
        return with_note(result, outcome)

    async def _stop_if_cancelled(self, run_id: str, decided: _Decided) -> None:
        """Agno itself looks only after the model's answer, when the tool has run."""
        for each in {run_id, decided.run}:
            if await is_cancelled(each):
                await self._give_back([decided])
                raise RunCancelledException(f"the run {each} was cancelled")

    def _lock(self, run_id: str) -> asyncio.Lock:
        return self._locks.setdefault(run_id, asyncio.Lock())

    async def _forget(self, runs: AbstractSet[str]) -> None:
        left = [call for call in self._decided if call[0] in runs]
        await self._give_back([self._decided.pop(each) for each in left])


def _reader(function: Function, inner: Callable[..., Any]) -> Reader:
    """Reads what the model gives; Agno passes the other parameters."""
    known = function.model_copy(deep=False)
    known.parameters = {"type": "object", "properties": {}, "required": []}
    known.skip_entrypoint_processing = False
    known.process_entrypoint()
    own = inspect.signature(inner).parameters.values()
    variadic = {each.name for each in own if each.kind is inspect.Parameter.VAR_KEYWORD}
    names = {*known.parameters.get("properties", {}), *variadic}
    return reader_of(inner, config=ConfigDict(arbitrary_types_allowed=True), only=names)


async def _invoked(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(**arguments)
    return await asyncio.to_thread(function, **arguments)


def _signature_with_call(function: Callable[..., Any]) -> inspect.Signature:
    """Add the parameter through which Agno passes the call."""
    own = inspect.signature(function)
    parameters = [each for each in own.parameters.values() if each.name != "fc"]
    rest = parameters[-1:] if parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD else []
    call = inspect.Parameter("fc", inspect.Parameter.KEYWORD_ONLY, annotation=FunctionCall)
    return own.replace(parameters=[*parameters[: len(parameters) - len(rest)], call, *rest])


def _call(run_id: str, call_id: str | None, arguments: Mapping[str, Any] | None) -> Call:
    return run_id, call_id or "", canonical_bytes(dict(arguments or {}))

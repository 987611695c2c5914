"""One attempt at a claimed call: run the tool (at most once, unless idempotent) and report."""

import asyncio
from functools import partial
from typing import Any, Protocol
from uuid import UUID

import structlog

from agent import tracing
from agent.database.background import start_task
from agent.domain.request import ExecutionStatus
from agent.domain.run import AnswerKind
from agent.runtime import stored_text, user_code
from agent.runtime.hooks import run_hook
from agent.runtime.judging.run_calls import Asker
from agent.runtime.services import Services
from agent.runtime.tool import NotDone, Tool, ToolContext
from agent.runtime.until_answered import until_answered
from agent.runtime.user_code import UserCall
from agent.runtime.work_queue import give_back_slot
from agent.store.views import OpenCallDetails
from agent.usecases import calls, runs
from agent.usecases.calls import AttemptReport, Claim, Outcome, hook_state
from signoff.errors import MalformedArguments

log = structlog.get_logger(__name__)

SHOWN_AFTER = 0.4
"""Seconds until a running call is shown; most end sooner."""


class CallingRun(Asker, Protocol):
    """The run on whose behalf an attempt runs a tool: its ids for tracing, its agent and its requester."""

    @property
    def id(self) -> UUID: ...

    @property
    def root_id(self) -> UUID: ...


async def run_claimed(services: Services, run: CallingRun, tool: Tool, claim: Claim, asked_at: float) -> None:
    """Run a just evaluated claim; its lease counts from ``asked_at`` of ``lease_clock``."""
    at_work = asyncio.get_running_loop().call_later(
        SHOWN_AFTER, lambda: start_task(runs.show_at_work(services.db, run.id), "at work")
    )
    try:
        with services.heartbeat.holding_execution(claim.execution_id, asked_at):
            await perform(services, run, tool, claim)
    finally:
        at_work.cancel()


async def perform(services: Services, run: CallingRun, tool: Tool, claim: Claim) -> None:
    """Run the tool of a claimed call and report its outcome, traced as one span."""
    about: tracing.Attributes = {
        "run_id": str(run.id),
        "request_id": str(claim.request_id) if claim.request_id else None,
        "call_id": str(claim.call_id),
        "execution_id": str(claim.execution_id),
        "agent": run.agent,
        "tool": tool.name,
        "attempt": claim.attempt,
    }
    above = claim.request_id or run.id
    with tracing.span_within(f"tool {tool.name}", run.root_id, above, about) as span:
        outcome = await _run(services, run, tool, claim)
        status = outcome.status if outcome else None
        span.set(status=status.value if status else "overdue")
        if status is not ExecutionStatus.SUCCEEDED:
            span.failed(status.value if status else "overdue")


async def end_unrun(
    services: Services, work: OpenCallDetails, tool: Tool | None, claim: Claim, why: str
) -> None:
    """Tell the tool before storing its refusal: if this worker dies in between, another repeats it."""
    if tool is not None and tool.on_refused is not None:
        await run_hook(services, tool.on_refused, tool, work, claim.action, cause="denied")
        await hook_state.clear_prepared(services.db, work.call.id, claim.action.canonical)
    await _report(services, claim, _undone(claim, why))


async def _run(services: Services, run: CallingRun, tool: Tool, claim: Claim) -> Outcome | None:
    """Returns the stored outcome. None: overdue, and will be retried."""
    context = ToolContext(
        run_id=run.id,
        call_id=claim.call_id,
        idempotency_key=claim.idempotency_key,
        requester=run.requester,
        agent=run.agent,
    )
    try:
        arguments = tool.signature.judged_values(claim.action.arguments)
    except MalformedArguments as error:
        outcome = _undone(claim, f"the arguments no longer fit the tool: {error}")
        await _report(services, claim, outcome)
        return outcome
    if tool.signature.context is not None:
        arguments[tool.signature.context] = context
    call = services.user_code.start(
        tool.function, arguments, name=f"tool {tool.name}", check=partial(_check_lease, services, claim)
    )
    try:
        await call.wait(tool.timeout)
    except asyncio.CancelledError:
        # The service stops. If retryable, the next process finds the call when the lease has expired.
        unbegun = call.abandon()
        if not tool.repeatable:
            stopped = _undone(claim, "the service stopped before it began")
            doubtful = _doubtful(call, "the service stopped while it ran")
            await _report(services, claim, stopped if unbegun else doubtful)
        raise
    if call.ended.done():
        outcome = _outcome(call, tool, claim)
    elif tool.repeatable and claim.attempt < calls.MAX_ATTEMPTS:
        _ = start_task(_await_late_result(services, claim, tool, call), "late result")
        return None  # ready again when the lease has expired
    elif call.withdraw():
        outcome = _undone(claim, user_code.BLOCKED)
    else:
        _ = start_task(_await_late_result(services, claim, tool, call), "late result")
        outcome = _overdue(tool, call, f"it did not end within {tool.timeout:g} s")
    give_back_slot()
    await _report(services, claim, outcome)
    return outcome


def _check_lease(services: Services, claim: Claim) -> None:
    """Begin only under a valid lease: once it has ended, a person may have settled the attempt."""
    if not services.heartbeat.holds_lease(claim.execution_id):
        raise NotDone("the worker was delayed for longer than its lease before the call began")


async def _await_late_result(services: Services, claim: Claim, tool: Tool, call: UserCall) -> None:
    """Results after the timeout are recorded, too. A coroutine is cancelled; a thread cannot be."""
    if call.withdraw():
        return
    call.interrupt()
    await asyncio.wait({call.ended})
    if not call.ended.cancelled():
        await _report(services, claim, _outcome(call, tool, claim))


def _outcome(call: UserCall, tool: Tool, claim: Claim) -> Outcome:
    ended, seconds = call.ended, call.seconds
    if ended.cancelled():
        return _overdue(tool, call, "its own code cancelled it")
    match ended.exception():
        case None:
            return _outcome_of(tool, ended.result(), seconds)
        case NotDone() as nothing:
            return _undone(claim, nothing, seconds)
        case error if (later := tool.seconds_to_retry(error, claim.attempt)) is not None:
            return Outcome(ExecutionStatus.FAILED, _logged(error, tool, claim), seconds, retry_after=later)
        case TimeoutError() as error:  # the awaited effect may have happened
            return _overdue(tool, call, stored_text.error_text(error))
        case error:
            return Outcome(ExecutionStatus.FAILED, _logged(error, tool, claim), seconds)


def _logged(error: BaseException, tool: Tool, claim: Claim) -> str:
    """People and the model read the returned error; the log has the author's frames."""
    log.warning(
        "tool raised",
        action="tool.raised",
        tool=tool.name,
        call_id=str(claim.call_id),
        attempt=claim.attempt,
        error=stored_text.log_text(error, claim.action.arguments),
    )
    return stored_text.error_text(error)


def _outcome_of(tool: Tool, result: Any, seconds: float) -> Outcome:
    try:
        return Outcome(ExecutionStatus.SUCCEEDED, tool.stored_result(result), seconds)
    except ValueError as error:
        # Its effect has happened and counts; the step raises the text.
        words = f"it ran, but its result cannot be stored: {stored_text.error_text(error)}. {_DONE_ANYHOW}"
        return Outcome(ExecutionStatus.SUCCEEDED, words, seconds, kind=AnswerKind.NOT_STORED)


_DONE_ANYHOW = (
    "It is done, and resuming the run does not repeat it: correct what the function returns, then start a new run for "
    "what is left."
)


def _overdue(tool: Tool, call: UserCall, what: str) -> Outcome:
    if tool.read_only:
        return Outcome(ExecutionStatus.FAILED, what, call.seconds)
    return _doubtful(call, what)


def _doubtful(call: UserCall, what: str) -> Outcome:
    text = f"{what}; it is unknown whether it had its effect"
    return Outcome(ExecutionStatus.IN_DOUBT, text, call.seconds)


def _undone(claim: Claim, why: object, seconds: float = 0.0) -> Outcome:
    return calls.undone(claim, stored_text.reason(why), seconds)


async def _report(services: Services, claim: Claim, outcome: Outcome) -> None:
    """Write the outcome, however long the database is away. If the service stops, people settle the attempt."""
    write = partial(services.joint_writes.reports.join, AttemptReport(claim, outcome))
    about = {
        "execution_id": str(claim.execution_id),
        "call_id": str(claim.call_id),
        "status": outcome.status.value,
    }
    try:
        written = await until_answered(write, "execution.unwritten")
    except asyncio.CancelledError:
        log.error(  # noqa: TRY400 - the traceback of a cancellation is useless
            "stopped before an outcome was written", action="execution.left", **about
        )
        raise
    if not written:
        log.info("an outcome came late", action="execution.late", **about)

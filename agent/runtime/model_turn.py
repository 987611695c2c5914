"""`advance_run`: make one model turn. State is in rows; no tools run."""

import random
from functools import partial
from uuid import UUID

import structlog
from opentelemetry.trace import SpanKind

from agent import tracing
from agent.domain.errors import LeaseLost
from agent.domain.run import Turn
from agent.runtime import run_limits, transcript
from agent.runtime.function_agents import FunctionAgent
from agent.runtime.function_replay import advance_function
from agent.runtime.model import Reply
from agent.runtime.model_errors import ModelError
from agent.runtime.services import Services
from agent.runtime.until_answered import until_answered
from agent.usecases import runs
from agent.usecases.runs import LeasedRun, MadeTurn
from signoff.backoff import Backoff

MAX_TRIES = 6

PAUSES = Backoff(first=1.0, longest=60.0, spread=(0.75, 1.25))
_LONGEST_ASKED_FOR = 600.0  # longer counts as unavailable

log = structlog.get_logger(__name__)


async def advance_run(services: Services, run_id: UUID) -> None:
    """Make the next model turn, if there is new input. A lost lease ends it silently; polling finds the run again."""
    leased = await services.joint_writes.lease(run_id)
    if leased is None:
        return
    try:
        with services.heartbeat.holding_run(leased.lease):
            await _advance(services, leased)
    except LeaseLost:
        log.info("turn dropped", action="run.lease_lost", run_id=str(run_id), epoch=leased.lease.epoch)


async def _advance(services: Services, leased: LeasedRun) -> None:
    agent = services.registry.find(leased.run.agent)
    if isinstance(agent, FunctionAgent):
        await advance_function(services, leased, agent)
        return
    try:
        reply = await _ask(services, leased)
    except ModelError as error:
        await _failed(services, leased, error)
        return
    turn = Turn(reply.text, reply.calls, reply.tokens, leased.heard, reply.finish_reason)
    record = partial(services.joint_writes.turns.join, MadeTurn(leased.lease, turn))
    await until_answered(record, "run.turn_unwritten")  # a repeated model call would be paid twice
    log.info(
        "model turn recorded",
        action="run.turn",
        run_id=str(leased.run.id),
        calls=[call.tool for call in reply.calls],
        tokens=reply.tokens,
    )


async def _ask(services: Services, leased: LeasedRun) -> Reply:
    agent = services.registry.find(leased.run.agent)
    if agent is None:
        # Another worker may have it loaded, or this one after a restart.
        raise ModelError(f"no agent named {leased.run.agent!r} is loaded (SIGNOFF_AGENTS)", retryable=True)
    if (limit := await run_limits.exceeded_limit(services, leased, agent)) is not None:
        raise ModelError(limit, retryable=False)
    about: tracing.Attributes = {
        "run_id": str(leased.run.id),
        "agent": agent.name,
        "model": agent.model or services.model.name,
        "turn": leased.run.turn + 1,
    }
    with tracing.span_within("model", leased.run.root_id, leased.run.id, about, kind=SpanKind.CLIENT) as span:
        reply = await services.model.complete(
            transcript.chat(agent, leased.messages, leased.calls),
            [tool.offered for tool in agent.tools],
            may_call=leased.tools_on,
            model=agent.model,
        )
        span.set(tokens=reply.tokens, calls=len(reply.calls), finish_reason=reply.finish_reason)
    return reply


async def _failed(services: Services, leased: LeasedRun, error: ModelError) -> None:
    wait = retry_in(error, leased.failures, random.random())  # noqa: S311 - jitter
    await runs.record_model_failure(services.db, leased.lease, str(error), wait)
    log.warning(
        "model turn failed",
        action="run.failed" if wait is None else "run.retrying",
        run_id=str(leased.run.id),
        error=str(error),
        retry_in=wait,
    )


def retry_in(error: ModelError, failures: int, jitter: float) -> float | None:
    """Seconds: 1, 2, 4 … 60, times 0.75 to 1.25 by `jitter`, or later if the model asks.

    None: give up, at once if a retry cannot help, else after MAX_TRIES; `failures` counts those before.
    """
    asked_for = error.retry_after or 0.0
    if not error.retryable or failures + 1 >= MAX_TRIES or asked_for > _LONGEST_ASKED_FOR:
        return None
    return PAUSES.after(failures + 1, jitter, asked_for)

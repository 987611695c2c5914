"""Calls whose tool an external program runs; the service never calls its function.

Approved or allowed calls wait for a program whose key has the scope `execute`; its claim is evaluated by the current
policy and facts, like a worker's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from agent import tracing
from agent.domain.api_keys import Principal
from agent.domain.errors import NotFound
from agent.domain.request import ExecutionStatus
from agent.domain.run import CallState
from agent.runtime import claims, hooks
from agent.runtime.agents import Agent
from agent.runtime.ready_calls import NEEDS_APPROVAL, ready_call
from agent.runtime.services import Services
from agent.runtime.step_tools import StepTool
from agent.runtime.tool import Tool
from agent.store import views
from agent.store.executions import ProgramAttempt
from agent.store.ids import new_id
from agent.store.views import HandedOutCall, OpenCallDetails
from agent.usecases.calls import AttemptReport, ClaimTerms, Outcome
from agent.usecases.calls.program_claims import (
    ClaimRefused,
    ProgramClaim,
    ReportRefused,
    TokenOf,
    find_attempt,
    find_open_claim,
    hash_of,
    random_token,
)

NO_SUCH_CALL = "There is no such call, or this key may not execute it."

PAGE = 100
"""Calls that one poll offers."""


async def handed_out(services: Services, principal: Principal) -> list[HandedOutCall]:
    """Return the calls of runs that this program's key may claim now, oldest first, at most 100."""
    tools = [
        (agent.name, tool.name)
        for agent in services.registry
        for tool in agent.tools
        if may_execute(principal, tool)
    ]
    return await services.db.read(views.handed_out, tools, principal.key, PAGE) if tools else []


def may_execute(principal: Principal, tool: Tool) -> bool:
    """Return whether this key may execute the tool: one for any program, or for this key alone."""
    return tool.external is True or tool.external == principal.key


async def claim(
    services: Services,
    call_id: UUID,
    principal: Principal,
    token_of: TokenOf = random_token,
    *,
    digest: bytes | None,
    lease_seconds: float,
) -> ProgramClaim:
    """Claim the call for a program. Raises NotFound, ClaimRefused and OutdatedPolicy.

    An open attempt is returned again if ``token_of`` gives its token: the first answer was lost.
    """
    judged = partial(_claim, services, call_id, principal, token_of, digest, lease_seconds)
    return await services.policies.judged(judged)


async def report(
    services: Services,
    call_id: UUID,
    principal: Principal,
    token: str,
    outcome: Outcome,
    result: Any = None,
    *,
    of: str = "call",
) -> None:
    """Write a claimed call's outcome, once, and answer the run that proposed it. Raises ReportRefused.

    ``outcome`` has ``result`` as a model reads it; a step returns the value.
    """
    about = {"call_id": str(call_id), "status": outcome.status.value}
    attempt = await find_attempt(services.db, call_id, token)
    if attempt is None or attempt.worker != principal.name:
        raise ReportRefused("wrong-token", f"this token does not belong to a claim of this {of}")
    with tracing.span_within("report", attempt.request_id or call_id, attempt.request_id or call_id, about):
        await _report(services, attempt, outcome, result)


async def _report(services: Services, attempt: ProgramAttempt, outcome: Outcome, result: Any) -> None:
    tool = _tool(services, attempt) if attempt.run_id else None
    if outcome.status is ExecutionStatus.SUCCEEDED and isinstance(tool, StepTool):
        outcome = replace(outcome, text=tool.stored_result(result))
    if await services.joint_writes.reports.join(AttemptReport(attempt, outcome)):
        return
    if attempt.status in (ExecutionStatus.SUCCEEDED, ExecutionStatus.FAILED):
        raise ReportRefused("reported", "another result was already reported and remains valid")
    raise ReportRefused("late", "the claim had expired: the result is recorded, and a person settles it")


def _tool(services: Services, attempt: ProgramAttempt) -> Tool | None:
    agent = services.registry.find(attempt.agent)
    return agent.tool(attempt.tool) if agent else None


async def _claim(
    services: Services,
    call_id: UUID,
    principal: Principal,
    token_of: TokenOf,
    digest: bytes | None,
    lease_seconds: float,
) -> ProgramClaim:
    work, agent, tool = await _found(services, call_id, principal)
    taken = work.call.state is CallState.CLAIMED
    if taken and (repeated := await find_open_claim(services.db, call_id, token_of)):
        return ProgramClaim.of(repeated, token_of(repeated.execution_id), lease_seconds)
    _check_ready(work)
    await hooks.undo_preparation(services, work, tool)
    ready = await ready_call(services, work, agent, tool)
    if isinstance(ready, bool):
        raise ClaimRefused("not-approved", "it can no longer begin as approved: nothing was done")
    if digest is not None and (ready.action is None or ready.action.digest != digest):
        raise ClaimRefused(
            "other-digest", "the approved action is a different one; a reviewer may have changed it"
        )
    execution_id = new_id()
    token = token_of(execution_id)
    terms = ClaimTerms(
        principal.name,
        tool.repeatable,
        tool.read_only,
        execution_id,
        uses=ready.uses,
        policy_epoch=ready.epoch,
        judgement=ready.judgement,
        lease_seconds=lease_seconds,
        claim_hash=hash_of(token),
    )
    claimed = await claims.claim_outside(services, work, terms, ready.covers)
    if claimed is None:
        if ready.covers is not None:
            await claims.give_up(services, work, tool, NEEDS_APPROVAL, epoch=ready.epoch)
        raise ClaimRefused(
            "not-ready", "it cannot begin now: it was claimed, stopped or paused, or is being evaluated again"
        )
    return ProgramClaim.of(claimed, token, lease_seconds)


async def _found(
    services: Services, call_id: UUID, principal: Principal
) -> tuple[OpenCallDetails, Agent, Tool]:
    work = await services.open_calls.get(call_id)
    agent = services.registry.find(work.run.agent) if work else None
    tool = agent.tool(work.call.tool) if agent and work else None
    if work is None or agent is None or tool is None or not may_execute(principal, tool):
        raise NotFound(NO_SUCH_CALL)
    if work.executor_key not in (None, principal.key):  # the tool was another program's when it was proposed
        raise NotFound(NO_SUCH_CALL)
    return work, agent, tool


def _check_ready(work: OpenCallDetails) -> None:
    match work.call.state:
        case CallState.READY if work.lapsed:
            raise ClaimRefused("lapsed", "it was not claimed in time")
        case CallState.READY:
            return
        case CallState.NEW | CallState.ASKED:
            raise ClaimRefused("not-approved", "people have not approved it yet")
        case CallState.CLAIMED | CallState.IN_DOUBT:
            raise ClaimRefused("claimed", "it was already claimed")
        case _:
            raise ClaimRefused("not-approved", "it has ended")

"""What a ready call runs: the evaluated action, or the approved one."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from agent.domain.coverage import Gap, Uncovered, uncovered
from agent.domain.judgement import Judgement
from agent.domain.limits import Use
from agent.domain.run import CallExecutor, RunStatus
from agent.runtime import claims
from agent.runtime.agents import Agent
from agent.runtime.judging.evaluation import judge, uses_of, with_rejection, within_limits
from agent.runtime.judging.grants import covers_of_call
from agent.runtime.judging.run_calls import (
    CurrentCall,
    as_of_now,
    context_of,
    facts_of,
    question,
    read_action,
    would_run,
)
from agent.runtime.services import Services
from agent.runtime.tool import NotDone, Tool
from agent.store.views import OpenCallDetails
from agent.usecases import requests
from agent.usecases.calls.program_claims import ClaimRefused
from agent.usecases.grants import Cover
from signoff.errors import Conflict, MalformedArguments
from signoff.values import Action

NEEDS_APPROVAL = "this needs approval now; propose it again"

_OVER = (RunStatus.DENIED, RunStatus.FAILED, RunStatus.CANCELLED)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReadyToRun:
    """A ready call that may begin after it was judged again, with the limits and grants that it uses."""

    action: Action | None
    uses: tuple[Use, ...]
    epoch: int
    covers: Sequence[Cover] | None = None
    """None: none needed."""
    judgement: Judgement | None = None


async def ready_call(
    services: Services, work: OpenCallDetails, agent: Agent, tool: Tool
) -> ReadyToRun | bool:
    """Judge the call again. False: it was given up; True: people are asked again.

    Raises ClaimRefused if policy denies what people approved for a program.
    """
    decided = Action.from_canonical(work.action_decided) if work.action_decided else None
    # Read once only: a default may be another one each time.
    stored = decided or (Action.from_canonical(work.action_judged) if work.action_judged else None)
    try:
        action = as_of_now(tool, stored) if stored else read_action(tool, work.call.raw_arguments)
        facts = await facts_of(services, work, tool, action)
    except MalformedArguments as error:
        await claims.give_up(services, work, tool, f"the arguments no longer fit the tool: {error}")
        return False
    except NotDone as nothing:
        await claims.give_up(services, work, tool, str(nothing))
        return False
    if tool.executor is not work.executor and (decided is None or work.attempts):
        await claims.give_up(services, work, tool, claims.TOOL_CHANGED)
        return False
    call = CurrentCall(work, agent, tool, action, facts)
    judgement, uses = judge(services.policy, call.proposal), uses_of(services.policy, call.proposal)
    if decided is None:
        return await _ready_unasked(services, call, stored, judgement, uses)
    would = would_run(agent, tool, action, facts, judgement)
    missing = uncovered(work, decided, would)
    if missing is None:
        return ReadyToRun(action, uses, judgement.epoch)
    if judgement.verdict == "deny" and work.executor is CallExecutor.PROGRAM:
        # The approval stays until it lapses: another policy may let it begin.
        raise ClaimRefused("denied", _denied(judgement))
    if judgement.verdict == "deny" or is_unneeded(work):
        over = f"{missing.because}, and the run has ended"
        why = _denied(judgement) if judgement.verdict == "deny" else over
        await claims.give_up(services, work, tool, why, epoch=judgement.epoch)
        return False
    _, states = await within_limits(services, call.proposal, judgement, uses, work.call.id)
    judgement = await with_rejection(services.db, call.proposal, judgement)
    new = question(services, call, judgement, states, await context_of(services, call, judgement))
    return await _void_and_ask(services, work, new, missing)


async def _ready_unasked(
    services: Services,
    call: CurrentCall,
    stored: Action | None,
    judgement: Judgement,
    uses: tuple[Use, ...],
) -> ReadyToRun | bool:
    work, tool, action, epoch = call.work, call.tool, call.action, judgement.epoch
    if judgement.verdict == "deny":
        await claims.give_up(services, work, tool, _denied(judgement), epoch=epoch, judgement=judgement)
        return False
    if stored is not None and stored.canonical != action.canonical:
        await claims.give_up(services, work, tool, claims.TOOL_CHANGED, epoch=epoch)
        return False
    if judgement.rule is None:
        return ReadyToRun(action, uses, epoch, judgement=judgement)
    return ReadyToRun(action, uses, epoch, await covers_of_call(services, call, judgement))


def _denied(judgement: Judgement) -> str:
    return f"policy denies this now: {judgement.told}"


async def _void_and_ask(
    services: Services, work: OpenCallDetails, new: requests.NewRequest, missing: Uncovered
) -> bool:
    try:
        opened = await requests.void_and_ask(
            services.db,
            work.call.id,
            work.call.request_id,
            new,
            missing.because,
            outdated=missing.gap is Gap.LAPSED,
        )
    except Conflict:
        return True
    log.info(
        "asked again",
        action="call.asked_anew",
        call_id=str(work.call.id),
        request_id=str(opened.request_id),
        because=missing.because,
    )
    return True


def is_unneeded(work: OpenCallDetails) -> bool:
    """A call repeated after an expiry is still wanted."""
    return work.run.status in _OVER and work.call.repeats is None

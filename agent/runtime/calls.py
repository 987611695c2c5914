"""`advance_call`: evaluate `new` calls, announce `asked`, check and run `ready`, answer `refused` ones."""

import asyncio
from collections.abc import Sequence
from functools import partial
from uuid import UUID

import structlog

from agent.domain.judgement import Judgement
from agent.domain.limits import LimitState, Use
from agent.domain.run import AnswerKind, CallAnswer, CallExecutor, CallState, RunStatus
from agent.fault_points import point
from agent.runtime import claims, hooks, stored_text
from agent.runtime.agents import Agent
from agent.runtime.judging.evaluation import after_rejections, judge, uses_of, within_limits
from agent.runtime.judging.grants import covers_of_call
from agent.runtime.judging.run_calls import CurrentCall, context_of, facts_of, question, read_action
from agent.runtime.ready_calls import NEEDS_APPROVAL, is_unneeded, ready_call
from agent.runtime.services import Services
from agent.runtime.step_tools import SleepTool
from agent.runtime.tool import NotDone, Tool
from agent.store import views
from agent.store.grants import GrantState
from agent.store.views import OpenCallDetails, QuestionContext
from agent.usecases import requests, runs
from signoff.errors import CollaborationError, Conflict, MalformedArguments, UnusableForm
from signoff.formats import after_colon

log = structlog.get_logger(__name__)


async def advance_call(services: Services, call_id: UUID) -> None:
    """Move the call as far as possible; safe at any time, and repeated by polling.

    Raises DatabaseError, and OutdatedPolicy when the policy in force cannot be loaded here.
    """
    while await services.policies.judged(partial(_step, services, call_id)):
        pass


async def _step(services: Services, call_id: UUID) -> bool:
    """Advance by one state. True: there may be more to do."""
    work = await services.open_calls.get(call_id)
    if work is None:
        return False
    agent = services.registry.find(work.run.agent)
    if agent is None:
        log.warning(
            "agent not loaded in this process",
            action="call.unserved",
            agent=work.run.agent,
            call_id=str(call_id),
        )
        return False
    tool = agent.tool(work.call.tool)
    match work.call.state:
        case CallState.NEW:
            return await _judge(services, work, agent, tool)
        case CallState.ASKED if not work.announced:
            return await hooks.announce(services, work, tool)
        case CallState.READY if not work.retried_later and isinstance(tool, SleepTool):
            await runs.wake_up(services.db, work.call.id)
        case CallState.READY if not work.retried_later and work.executor is CallExecutor.HERE:
            point("before_resume")
            await hooks.undo_preparation(services, work, tool)
            if tool is None:
                why = f"the tool {work.call.tool} no longer exists"
                await claims.give_up(services, work, None, why)
                return False
            with claims.room(services, work, tool):  # facts are for a call that runs now
                return await _execute(services, work, agent, tool)
        case CallState.REFUSED:
            await _refused(services, work, tool)
        case _:
            pass
    return False


async def _judge(services: Services, work: OpenCallDetails, agent: Agent, tool: Tool | None) -> bool:
    if is_unneeded(work):
        return await _refuse(services, work, AnswerKind.DENIED, "the run has ended")
    if tool is None:
        known = ", ".join(known.name for known in agent.tools) or "none"
        text = f"there is no tool named {work.call.tool!r}. Tools: {known}"
        return await _refuse(services, work, AnswerKind.UNKNOWN_TOOL, text)
    try:
        action = read_action(tool, work.call.raw_arguments)
    except MalformedArguments as error:
        text = f"the arguments of {tool.name} cannot be used, so it was not called: {error}"
        return await _refuse(services, work, AnswerKind.MALFORMED, text)
    if isinstance(tool, SleepTool):
        await runs.sleep_until_ready(services.db, work.call.id, action, float(action.arguments["seconds"]))
        return False
    try:
        facts = await facts_of(services, work, tool, action)
    except NotDone as nothing:
        return await _refuse(services, work, AnswerKind.NOTHING_DONE, str(nothing))
    call = CurrentCall(work, agent, tool, action, facts)
    judgement = judge(services.policy, call.proposal)
    uses = uses_of(services.policy, call.proposal)
    judgement, states, context = await _limited(services, call, judgement, uses)
    if judgement.verdict == "deny":
        return await _refuse(services, work, AnswerKind.DENIED, judgement.told, judgement=judgement)
    if judgement.verdict == "run" and work.call.request_id is None:
        if await _pass(services, call, judgement) and not tool.external:
            with claims.room(services, work, tool):
                await claims.run_tool(
                    services, work, tool, action, uses, epoch=judgement.epoch, judgement=judgement
                )
        return True
    return await _ask(
        services, call, judgement, states, context or await context_of(services, call, judgement)
    )


async def _limited(
    services: Services, call: CurrentCall, judgement: Judgement, uses: tuple[Use, ...]
) -> tuple[Judgement, tuple[LimitState, ...], QuestionContext | None]:
    """Returns what the question needs, too, if read meanwhile. Limits checked by an immediate claim are skipped."""
    if judgement.verdict == "ask":
        limited, context = await asyncio.gather(
            within_limits(services, call.proposal, judgement, uses, call.work.call.id),
            context_of(services, call, judgement),
        )
        return *limited, context
    claimed_now = judgement.verdict == "run" and call.work.call.request_id is None and not call.tool.external
    if claimed_now and services.full_limits.may_have_room(uses):
        return judgement, (), None
    return *await within_limits(services, call.proposal, judgement, uses, call.work.call.id), None


async def _pass(services: Services, call: CurrentCall, judgement: Judgement) -> bool:
    tool = call.tool
    return await runs.pass_call(
        services.db,
        call.work.call.id,
        call.action,
        executor=tool.executor,
        executor_key=tool.executor_key,
        policy_epoch=judgement.epoch,
    )


async def _ask(
    services: Services,
    call: CurrentCall,
    judgement: Judgement,
    states: tuple[LimitState, ...],
    context: QuestionContext,
) -> bool:
    work = call.work
    if (no := _earlier_rejection(context)) is not None:
        return await _refuse(services, work, AnswerKind.DENIED, no)
    judgement = await after_rejections(services.db, call.proposal, judgement)
    if judgement.verdict == "deny":
        return await _refuse(services, work, AnswerKind.DENIED, judgement.told, judgement=judgement)
    if await _run_under_grant(
        services, call, judgement, context.grants, tuple(state.use for state in states)
    ):
        return True
    new = question(services, call, judgement, states, context)
    try:
        opened = await requests.open(services.db, new)
    except Conflict:
        return True  # evaluated by another worker
    except UnusableForm as error:
        return await _refuse(services, work, AnswerKind.MALFORMED, str(error))
    log.info(
        "waiting for approval",
        action="call.pending" if call.tool.background else "run.paused",
        request_id=str(opened.request_id),
        run_id=str(work.run.id),
        call_id=str(work.call.id),
        tool=call.tool.name,
        because=judgement.because,
    )
    return True


async def _run_under_grant(
    services: Services,
    call: CurrentCall,
    judgement: Judgement,
    live: Sequence[GrantState],
    uses: tuple[Use, ...],
) -> bool:
    covers = await covers_of_call(services, call, judgement, live)
    if not covers:
        return False
    work, tool, action = call.work, call.tool, call.action
    if tool.external:  # the executing program's claim is the use
        return await _pass(services, call, judgement)
    with claims.room(services, work, tool):
        return await claims.run_covered(services, work, tool, action, covers, uses, epoch=judgement.epoch)


def _earlier_rejection(context: QuestionContext) -> str | None:
    """People are not asked twice in a run: the model gets the earlier rejection."""
    if (rejected := context.rejection) is None:
        return None
    why = f"; reason given by the reviewer{after_colon(rejected.reason)}" if rejected.reason else ""
    return f"the same action was already rejected in this run, see request {rejected.request_id}{why}"


async def _refuse(
    services: Services,
    work: OpenCallDetails,
    kind: AnswerKind,
    text: str,
    *,
    judgement: Judgement | None = None,
) -> bool:
    log.info("call refused", action="call.refused", call_id=str(work.call.id), kind=kind.value, because=text)
    answer = CallAnswer(kind, stored_text.storable_text(text))
    epoch = judgement.epoch if judgement else None
    await runs.refuse_call(services.db, work.call.id, answer, policy_epoch=epoch, judgement=judgement)
    return True


async def _execute(services: Services, work: OpenCallDetails, agent: Agent, tool: Tool) -> bool:
    """True: people are asked instead."""
    ready = await ready_call(services, work, agent, tool)
    if isinstance(ready, bool):
        return ready
    if ready.covers is None:
        await claims.run_tool(
            services, work, tool, ready.action, ready.uses, epoch=ready.epoch, judgement=ready.judgement
        )
    elif ready.action is None or not await claims.run_covered(
        services, work, tool, ready.action, ready.covers, ready.uses, epoch=ready.epoch
    ):
        await claims.give_up(services, work, tool, NEEDS_APPROVAL, epoch=ready.epoch)
    return False


async def _refused(services: Services, work: OpenCallDetails, tool: Tool | None) -> None:
    await hooks.refused(services, work, tool)
    stopped = await runs.answer_call(services.db, work.call.id)
    if stopped is not None:
        await _log_stop(services, work.run.id, stopped)


async def _log_stop(services: Services, run_id: UUID, stopped: CollaborationError) -> None:
    text = f"{type(stopped).__name__}: {stopped}"
    ended: UUID | None = run_id
    async with services.db.connection() as connection:
        while ended is not None:
            run = await views.run_view(connection, ended)
            if run is None or run.status is not RunStatus.DENIED:
                return
            origin = str(run_id) if ended != run_id else None
            log.error(text, action="run.stopped", run_id=str(ended), cause=stopped.cause, origin=origin)
            ended = run.parent_run_id

"""A ready call is claimed, as a use of a grant if one covers it, and its tool runs."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from uuid import UUID

import structlog

from agent.database.errors import OutcomeUnknown
from agent.database.wakeups import Wakeup
from agent.domain.errors import NotFound
from agent.domain.judgement import Judgement
from agent.domain.limits import Use
from agent.domain.run import CallExecutor
from agent.runtime import attempts, stored_text
from agent.runtime.agents import Agent, Delegate
from agent.runtime.concurrency import limits_of
from agent.runtime.heartbeat import lease_clock
from agent.runtime.services import Services
from agent.runtime.tool import Tool
from agent.runtime.until_answered import until_answered
from agent.store.concurrency import ConcurrencyLimit
from agent.store.views import OpenCallDetails
from agent.usecases import calls, grants, requests, runs
from agent.usecases.calls import CallToClaim, Claim, ClaimTerms
from agent.usecases.grants import Cover
from signoff.values import Action

TOOL_CHANGED = "the tool has changed since this was proposed"

log = structlog.get_logger(__name__)


def room(services: Services, work: OpenCallDetails, tool: Tool) -> AbstractContextManager[None]:
    """Count the call as running. Raises NoRoom."""
    return services.concurrency.running(
        Wakeup.call(work.call.id, work.run.agent, first=True), _concurrency(services, work, tool)
    )


def _concurrency(services: Services, work: OpenCallDetails, tool: Tool) -> Sequence[ConcurrencyLimit]:
    if isinstance(tool, Delegate) and tool.agent is not None:  # delegating takes no time
        return ()
    return limits_of(work.run.agent, services.registry.find(work.run.agent), tool)


async def run_tool(
    services: Services,
    work: OpenCallDetails,
    tool: Tool,
    judged: Action | None,
    uses: tuple[Use, ...] = (),
    *,
    epoch: int,
    judgement: Judgement | None = None,
) -> None:
    """Claim the call and run its tool with the decided arguments, byte for byte, in a `room`.

    `epoch`: the policy that allows it. `judgement`: if nobody was asked. Raises NoRoom and OutdatedPolicy.
    """
    if isinstance(tool, Delegate) and tool.agent is not None:
        claimed = await _delegate(services, work, tool, tool.agent, uses, epoch, judgement)
    else:
        terms = _terms(services, work, tool, uses, epoch, judgement)
        claim = partial(services.joint_writes.claims.join, _to_claim(work, terms))
        claimed = await _claim_and_run(services, work, tool, judged, terms, claim)
    if not claimed:
        services.full_limits.add(uses)


async def run_covered(
    services: Services,
    work: OpenCallDetails,
    tool: Tool,
    judged: Action,
    covers: Sequence[Cover],
    uses: tuple[Use, ...] = (),
    *,
    epoch: int,
) -> bool:
    """Use the first grant that covers the call. False: none does."""
    for cover in covers:
        terms = _terms(services, work, tool, uses, epoch)
        claim = partial(grants.claim, services.db, _to_claim(work, terms), cover)
        if await _claim_and_run(services, work, tool, judged, terms, claim):
            return True
    return False


def _terms(
    services: Services,
    work: OpenCallDetails,
    tool: Tool,
    uses: tuple[Use, ...],
    epoch: int,
    judgement: Judgement | None = None,
) -> ClaimTerms:
    everywhere = tuple(limit for limit in _concurrency(services, work, tool) if limit.across_processes)
    return ClaimTerms(
        services.worker,
        tool.repeatable,
        tool.read_only,
        concurrency=everywhere,
        uses=uses,
        policy_epoch=epoch,
        judgement=judgement,
    )


async def _claim_and_run(
    services: Services,
    work: OpenCallDetails,
    tool: Tool,
    judged: Action | None,
    terms: ClaimTerms,
    claim_it: Callable[[], Awaitable[Claim | None]],
) -> bool:
    claimed = await _claim(services, work, terms, claim_it)
    if claimed is None:
        return False
    claim, asked_at = claimed
    with services.heartbeat.holding_execution(claim.execution_id, asked_at):
        if claim.action.tool_version != tool.version or (
            judged and judged.canonical != claim.action.canonical
        ):
            await attempts.end_unrun(services, work, tool, claim, TOOL_CHANGED)
        else:
            await attempts.perform(services, work.run, tool, claim)
    return True


async def _claim(
    services: Services,
    work: OpenCallDetails,
    terms: ClaimTerms,
    claim: Callable[[], Awaitable[Claim | None]],
) -> tuple[Claim, float] | None:
    """Returns when the lease began. An unconfirmed COMMIT is looked up, so no doubt is left."""
    while True:
        try:
            return await _timed(claim)
        except OutcomeUnknown as error:
            log.warning("claim not confirmed", action="execution.unconfirmed", error=str(error))
        with suppress(NotFound):  # not written: claim again
            return await find_claim(services, work.run.id, work.call.id, terms.execution_id)


def _to_claim(work: OpenCallDetails, terms: ClaimTerms) -> CallToClaim:
    return CallToClaim(work.call.id, work.run.id, work.call.request_id, terms)


async def find_claim(
    services: Services, run_id: UUID, call_id: UUID, execution_id: UUID
) -> tuple[Claim, float] | None:
    """An unconfirmed claim, and when its lease began. ``None``: given up. Raises NotFound if not written."""
    find = partial(calls.find_claim, services.db, run_id, call_id, execution_id)
    return await until_answered(partial(_timed, find), "execution.unconfirmed")


async def _timed(claim: Callable[[], Awaitable[Claim | None]]) -> tuple[Claim, float] | None:
    asked_at = lease_clock()
    claimed = await claim()
    return (claimed, asked_at) if claimed else None


async def _delegate(
    services: Services,
    work: OpenCallDetails,
    tool: Tool,
    agent: Agent,
    uses: tuple[Use, ...],
    epoch: int,
    judgement: Judgement | None,
) -> bool:
    terms = ClaimTerms(services.worker, idempotent=True, uses=uses, policy_epoch=epoch, judgement=judgement)
    call = _to_claim(work, terms)
    below = await runs.delegate(
        services.db, call, agent=agent.name, version=agent.version, background=tool.background
    )
    if below is not None:
        log.info(
            "call delegated",
            action="call.delegated",
            run_id=str(work.run.id),
            call_id=str(work.call.id),
            agent=agent.name,
            below=str(below),
        )
    return below is not None


async def claim_outside(
    services: Services, work: OpenCallDetails, terms: ClaimTerms, covers: Sequence[Cover] | None
) -> Claim | None:
    """Claim for an external program, perhaps as a use of a grant. None: not now. Raises OutdatedPolicy."""
    if covers is None:
        return await services.joint_writes.claims.join(_to_claim(work, terms))
    for cover in covers:
        if claimed := await grants.claim(services.db, _to_claim(work, terms), cover):
            return claimed
    return None


async def give_up(
    services: Services,
    work: OpenCallDetails,
    tool: Tool | None,
    why: str,
    *,
    epoch: int | None = None,
    judgement: Judgement | None = None,
) -> None:
    """End a ready call that can no longer run. Raises OutdatedPolicy.

    `epoch`: the policy that ends it, by default this process's. `judgement`: denies a call that nobody was asked
    about.
    """
    by = services.policy.epoch if epoch is None else epoch
    if work.executor is CallExecutor.PROGRAM:  # the database refuses an attempt of our own
        await requests.end_unclaimed(
            services.db,
            work.call.id,
            work.call.request_id,
            stored_text.reason(why),
            worker=services.worker,
            policy_epoch=by,
            judgement=judgement,
        )
        return
    reads = tool is not None and tool.read_only
    terms = ClaimTerms(
        services.worker, idempotent=True, read_only=reads, policy_epoch=by, judgement=judgement
    )
    claim_it = partial(services.joint_writes.claims.join, _to_claim(work, terms))
    claimed = await _claim(services, work, terms, claim_it)
    if claimed is not None:
        claim, asked_at = claimed
        with services.heartbeat.holding_execution(claim.execution_id, asked_at):
            await attempts.end_unrun(services, work, tool, claim, why)

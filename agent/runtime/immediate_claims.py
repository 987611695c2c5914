"""Calls that are claimed without a look: with their decisions, or straight after them in another process.

A call is claimed with its decision if this process serves its agent, has a free slot, and needs no lookup or hook
before the tool begins. A process that does none of this names the call to the others, and the first of them claims it
in one transaction. Other calls stay ready, for ``advance_call``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from uuid import UUID

import structlog

from agent.database.errors import OutcomeUnknown
from agent.database.wakeups import Wakeup
from agent.domain.coverage import uncovered
from agent.domain.errors import NotFound, OutdatedPolicy
from agent.domain.facts import Facts
from agent.domain.policy import check_epoch
from agent.fault_points import point
from agent.runtime import attempts, claims
from agent.runtime.agents import Delegate
from agent.runtime.heartbeat import lease_clock
from agent.runtime.judging.evaluation import DenialsNow, judge, uses_of
from agent.runtime.judging.run_calls import as_of_now, proposal_of, would_run
from agent.runtime.services import Services
from agent.runtime.tool import Tool
from agent.runtime.work_queue import WorkQueue
from agent.store.claimable_calls import ClaimableCall
from agent.usecases.calls import ApprovedCall, Claim, ClaimTerms
from agent.usecases.requests import Votes
from signoff.errors import MalformedArguments
from signoff.values import Action

log = structlog.get_logger(__name__)


def process_votes(services: Services, calls: WorkQueue | None = None) -> Votes:
    """The votes of this process; ``calls`` runs the tools, if it is a worker."""
    return Votes(services.db, DenialsNow(services), partial(_reserve, services, calls))


@contextmanager
def _reserve(services: Services, calls: WorkQueue | None, approvals: int) -> Iterator[ImmediateClaims | None]:
    slots = calls.reserve(approvals) if calls else 0
    if calls is None or not slots:
        yield None
        return
    claims = ImmediateClaims(services, calls, slots)
    try:
        yield claims
    except OutcomeUnknown:
        claims.look_up()
        raise
    finally:
        claims.close()


class ImmediateClaims:
    """One transaction's claims; each takes a reserved slot."""

    def __init__(self, services: Services, calls: WorkQueue, slots: int) -> None:
        self._services = services
        self._calls = calls
        self._slots = slots
        self._asked_at = lease_clock()
        self._judged: dict[UUID, tuple[ClaimableCall, Tool]] = {}

    def judge(self, call: ClaimableCall, approved: Action) -> ClaimTerms | None:
        if len(self._judged) == self._slots:
            return None
        if (tool := _tool_if_covered(self._services, call, approved)) is None:
            return None
        terms = _terms(self._services, call, tool, approved)
        self._judged[terms.execution_id] = call, tool
        return terms

    def begin(self, claim: Claim) -> None:
        point("after_approved_claim")
        call, tool = self._judged.pop(claim.execution_id)
        work = attempts.run_claimed(self._services, call.run, tool, claim, self._asked_at)
        self._slots -= 1
        self._calls.run(Wakeup.call(claim.execution_id, call.run.agent), work)

    def look_up(self) -> None:
        """Find and run an unconfirmed COMMIT's claims."""
        for execution_id, (call, tool) in self._judged.items():
            self._slots -= 1
            work = _run_if_written(self._services, call, tool, execution_id)
            self._calls.run(Wakeup.call(execution_id, call.run.agent), work)
        self._judged.clear()

    def close(self) -> None:
        self._calls.release(self._slots)


async def claim_approved(services: Services, call_id: UUID, run_id: UUID, request_id: UUID) -> bool:
    """Claim a call that people approved just now, and run its tool. False: it needs a look."""
    judged: tuple[ClaimableCall, Tool, UUID] | None = None

    def judge(call: ClaimableCall, approved: Action) -> ClaimTerms | None:
        nonlocal judged
        if (tool := _tool_if_covered(services, call, approved)) is None:
            return None
        terms = _terms(services, call, tool, approved)
        judged = call, tool, terms.execution_id
        return terms

    asked_at = lease_clock()
    try:
        begun = await services.joint_writes.approved.join(ApprovedCall(call_id, run_id, request_id, judge))
    except OutcomeUnknown as error:
        log.warning("claim not confirmed", action="execution.unconfirmed", error=str(error))
        if judged is not None:
            await _run_if_written(services, *judged)
        return False
    if begun is None or judged is None:
        return False
    await attempts.run_claimed(services, judged[0].run, judged[1], begun.claim, asked_at)
    return True


def _terms(services: Services, call: ClaimableCall, tool: Tool, approved: Action) -> ClaimTerms:
    return ClaimTerms(
        services.worker,
        tool.repeatable,
        tool.read_only,
        uses=uses_of(services.policy, proposal_of(call.run, tool, approved, Facts())),
        policy_epoch=call.policy_epoch,
    )


def _tool_if_covered(services: Services, call: ClaimableCall, approved: Action) -> Tool | None:
    """Does not raise: the vote counts, and a look says what is wrong."""
    try:
        return _tool_to_run(services, call, approved)
    except OutdatedPolicy:
        return None
    except Exception:
        log.exception("not judged with its decision", action="call.not_judged", call_id=str(call.id))
        return None


def _tool_to_run(services: Services, call: ClaimableCall, approved: Action) -> Tool | None:
    """The tool, if served here, without a hook or lookup, and covered by the approval. Raises OutdatedPolicy."""
    agent = services.registry.find(call.run.agent)
    tool = agent.tool(call.tool) if agent else None
    if agent is None or tool is None or tool.external or tool.facts or tool.on_pending or tool.on_refused:
        return None
    if tool.concurrency is not None or agent.concurrency is not None:
        return None
    if isinstance(tool, Delegate):
        return None
    try:
        now = as_of_now(tool, approved)
    except MalformedArguments:
        return None
    judgement = judge(services.policy, proposal_of(call.run, tool, now, Facts()))
    check_epoch(judgement.epoch, call.policy_epoch)
    would = would_run(agent, tool, now, Facts(), judgement)
    return None if uncovered(call, approved, would) else tool


async def _run_if_written(services: Services, call: ClaimableCall, tool: Tool, execution_id: UUID) -> None:
    with suppress(NotFound):  # neither is the vote written
        found = await claims.find_claim(services, call.run_id, call.id, execution_id)
        if found is not None:
            await attempts.run_claimed(services, call.run, tool, *found)

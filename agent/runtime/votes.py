"""Votes in this process, and the tools that they start at once.

A call is claimed with its decision if this process serves its agent, has a free slot, and needs no lookup or hook
before the tool begins. Other calls become ready, for ``advance_call``.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from uuid import UUID

import structlog

from agent.database.errors import BudgetExceeded, OutcomeUnknown
from agent.database.pools import Database
from agent.database.wakeups import Wakeup
from agent.domain.coverage import uncovered
from agent.domain.errors import NotFound, OutdatedPolicy
from agent.domain.facts import Facts
from agent.domain.policy import check_epoch
from agent.domain.request import Ballot, Verdict
from agent.fault_points import point
from agent.runtime import attempts, claims
from agent.runtime.agents import Delegate
from agent.runtime.heartbeat import lease_clock
from agent.runtime.judging.evaluation import denial_of_asked, judge, uses_of
from agent.runtime.judging.run_calls import as_of_now, proposal_of, would_run
from agent.runtime.services import Services
from agent.runtime.tool import Tool
from agent.runtime.work_queue import WorkQueue
from agent.store.vote_locks import AskedCall
from agent.usecases import requests
from agent.usecases.executions import Claim, ClaimTerms
from agent.usecases.requests import VoteOutcome
from agent.usecases.waves import Settled, Wave
from signoff.errors import MalformedArguments, SignoffError
from signoff.values import Action

log = structlog.get_logger(__name__)


PATIENCE = 0.25
"""Seconds that a vote waits for another transaction before a second one begins."""

LEAST = 0.5
"""Seconds left when a vote's transaction begins."""


@dataclass(frozen=True, slots=True)
class _Cast:
    ballot: Ballot
    deadline: float


class Votes:
    """Counts concurrent votes in one transaction; ``calls`` runs the tools, if the process is a worker."""

    def __init__(self, services: Services, calls: WorkQueue | None = None) -> None:
        self._services = services
        self._calls = calls
        self._wave: Wave[_Cast, VoteOutcome] = Wave(
            self._send, key=lambda cast: cast.ballot.request_id, patience=PATIENCE
        )

    @property
    def db(self) -> Database:
        return self._services.db

    async def cast(self, ballot: Ballot, deadline: float = math.inf) -> VoteOutcome:
        """Returns, or raises ``OutcomeUnknown``, by its ``deadline`` (monotonic). The approved call may have begun."""
        if ballot.verdict is Verdict.APPROVE:
            ballot = replace(ballot, denied=await self._denied(ballot, deadline))
        return await self._wave.join(_Cast(ballot, deadline))

    async def _denied(self, ballot: Ballot, deadline: float) -> str | None:
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await denial_of_asked(self._services, ballot.request_id, ballot.tool)
        except TimeoutError:
            raise _too_late() from None

    async def finish(self) -> None:
        await self._wave.finish()

    async def _send(self, members: Sequence[_Cast], *, wait: bool) -> list[Settled[VoteOutcome]]:
        latest = time.monotonic() + LEAST
        timely = [each for each in members if each.deadline >= latest]
        counted = iter(await self._count(timely, wait=wait) if timely else ())
        return [next(counted) if each.deadline >= latest else _too_late() for each in members]

    async def _count(self, members: Sequence[_Cast], *, wait: bool) -> list[Settled[VoteOutcome]]:
        """A vote that goes alone counts whatever is wrong with its claim."""
        ballots = [each.ballot for each in members]
        deadline = min(each.deadline for each in members)
        with self._claims(ballots) as claims:
            try:
                return await requests.count_votes(
                    self.db, ballots, wait=wait, claimant=claims, deadline=deadline
                )
            except SignoffError:
                raise
            except Exception:
                if claims is None or len(ballots) > 1:
                    raise
                log.exception("not claimed with its decision", action="call.not_claimed")
        return await requests.count_votes(self.db, ballots, wait=wait, deadline=deadline)

    @contextmanager
    def _claims(self, ballots: Sequence[Ballot]) -> Iterator[ImmediateClaims | None]:
        approvals = sum(each.verdict is Verdict.APPROVE for each in ballots)
        slots = self._calls.reserve(approvals) if self._calls else 0
        if self._calls is None or not slots:
            yield None
            return
        claims = ImmediateClaims(self._services, self._calls, slots)
        try:
            yield claims
        except OutcomeUnknown:
            claims.look_up()
            raise
        finally:
            claims.close()


def _too_late() -> BudgetExceeded:
    return BudgetExceeded("the vote had to wait too long to be counted in time: nothing was written")


class ImmediateClaims:
    """One transaction's claims; each takes a reserved slot."""

    def __init__(self, services: Services, calls: WorkQueue, slots: int) -> None:
        self._services = services
        self._calls = calls
        self._slots = slots
        self._asked_at = lease_clock()
        self._judged: dict[UUID, tuple[AskedCall, Tool]] = {}

    def judge(self, call: AskedCall, approved: Action) -> ClaimTerms | None:
        if len(self._judged) == self._slots:
            return None
        try:
            tool = _tool_to_run(self._services, call, approved)
        except OutdatedPolicy:
            return None
        except Exception:  # the vote counts
            log.exception("not judged with its decision", action="call.not_judged", call_id=str(call.id))
            return None
        if tool is None:
            return None
        uses = uses_of(self._services.policy, proposal_of(call.run, tool, approved, Facts()))
        terms = ClaimTerms(
            self._services.worker,
            tool.repeatable,
            tool.read_only,
            uses=uses,
            policy_epoch=call.policy_epoch,
        )
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


def _tool_to_run(services: Services, call: AskedCall, approved: Action) -> Tool | None:
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


async def _run_if_written(services: Services, call: AskedCall, tool: Tool, execution_id: UUID) -> None:
    with suppress(NotFound):  # neither is the vote written
        found = await claims.find_claim(services, call.run_id, call.id, execution_id)
        if found is not None:
            await attempts.run_claimed(services, call.run, tool, *found)

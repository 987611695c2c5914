"""What this process writes for many runs together."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

from agent.database.errors import OutcomeUnknown
from agent.database.pools import Database
from agent.domain.errors import LeaseLost, NoRoom
from agent.domain.request import ExecutionStatus
from agent.domain.run import RunLease, Turn
from agent.runtime.waves import Wave
from agent.usecases import executions, runs
from agent.usecases.executions import CallToClaim, Claim, Outcome, Report
from agent.usecases.runs import LeasedRun, MadeTurn

SETTLING = 5.0
"""Seconds for which a service that stops waits for what is still written."""


class JointWrites:
    """The waves of a process."""

    def __init__(self, db: Database, worker: str) -> None:
        self._db = db
        self._worker = worker
        self._claims: Wave[CallToClaim, Claim | NoRoom | None] = Wave(
            partial(executions.claim_together, db),
            keys=lambda asked: {asked.run_id},
            abandon=partial(_never_begun, db),
        )
        self._reports: Wave[Report, bool] = Wave(
            partial(executions.report_together, db), keys=lambda report: {report.claim.run_id}
        )
        self._leases: Wave[UUID, LeasedRun | None] = Wave(
            partial(runs.lease_together, db, worker), keys=_itself, abandon=partial(_give_back, db)
        )
        self._turns: Wave[MadeTurn, LeaseLost | None] = Wave(
            partial(runs.record_turns, db), keys=lambda made: {made.lease.run_id}
        )
        self._waves: tuple[Wave[Any, Any], ...] = (self._claims, self._reports, self._leases, self._turns)

    async def finish(self) -> None:
        """Wait, for a while, until nothing is under way and what nobody waits for any more is given back."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLING):
                await asyncio.gather(*(wave.finish() for wave in self._waves))

    async def claim(self, asked: CallToClaim) -> Claim | None:
        """``executions.claim``. Raises NoRoom."""
        claimed = await self._claims.join(asked)
        if isinstance(claimed, NoRoom):
            raise claimed
        return claimed

    async def report(self, claim: Claim, outcome: Outcome) -> bool:
        """``executions.report``."""
        return await self._reports.join(Report(claim, outcome))

    async def lease(self, run_id: UUID) -> LeasedRun | None:
        """``runs.lease``. After OutcomeUnknown nobody holds the run for this process."""
        try:
            return await self._leases.join(run_id)
        except OutcomeUnknown:
            await runs.drop_lease(self._db, run_id, self._worker)
            raise

    async def record_turn(self, lease: RunLease, turn: Turn) -> None:
        """``runs.record_turn``."""
        if (lost := await self._turns.join(MadeTurn(lease, turn))) is not None:
            raise lost


async def _never_begun(db: Database, asked: CallToClaim, claim: Claim | NoRoom | None) -> None:
    """Nobody runs the tool, because the service stops. What may be tried again is, when its lease is over."""
    if isinstance(claim, Claim) and not asked.terms.idempotent:
        words = "the service stopped before it began; nothing ran"
        await executions.report(db, claim, Outcome(ExecutionStatus.FAILED, words))


async def _give_back(db: Database, _run_id: UUID, leased: LeasedRun | None) -> None:
    """Nobody makes the turn, because the service stops: another worker may, at once."""
    if leased is not None:
        await runs.release(db, leased.lease, 0)


def _itself(run_id: UUID) -> set[Hashable]:
    return {run_id}

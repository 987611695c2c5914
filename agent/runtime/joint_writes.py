"""The waves of a process: leases, turns, claims and reports that share transactions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from uuid import UUID

from agent.database.errors import OutcomeUnknown
from agent.database.pools import Database
from agent.usecases import calls, runs
from agent.usecases.calls import ApprovedCall, AttemptReport, BegunCall, CallToClaim, Claim
from agent.usecases.runs import LeasedRun, MadeTurn
from agent.usecases.waves import Wave

SETTLING = 5.0
"""Seconds that a stopping service waits for writes."""


class JointWrites:
    """The waves of a process, in which concurrent leases, turns, claims and reports share transactions."""

    def __init__(self, db: Database, worker: str) -> None:
        self._db = db
        self._worker = worker
        self.claims: Wave[CallToClaim, Claim | None] = Wave(
            calls.ClaimCalls(db).send,
            key=lambda call: call.run_id or call.call_id,
            abandon=self._never_begun,
        )
        self.approved: Wave[ApprovedCall, BegunCall | None] = Wave(
            calls.ClaimApproved(db).send, key=lambda call: call.run_id, abandon=self._approved_never_begun
        )
        self.reports: Wave[AttemptReport, bool] = Wave(
            calls.WriteReports(db).send, key=lambda report: report.claim.run_id or report.claim.call_id
        )
        self._leases: Wave[UUID, LeasedRun | None] = Wave(
            runs.LeaseRuns(db, worker).send, key=lambda run_id: run_id, abandon=self._give_back
        )
        self.turns: Wave[MadeTurn, None] = Wave(runs.RecordTurns(db).send, key=lambda made: made.lease.run_id)

    async def lease(self, run_id: UUID) -> LeasedRun | None:
        """After OutcomeUnknown, drop a lease that may be held."""
        try:
            return await self._leases.join(run_id)
        except OutcomeUnknown:
            await runs.drop_lease(self._db, run_id, self._worker)
            raise

    async def finish(self) -> None:
        """Wait, up to ``SETTLING``, also for the release of abandoned claims and leases."""
        waves: tuple[Wave[Any, Any], ...] = (
            self.claims,
            self.approved,
            self.reports,
            self._leases,
            self.turns,
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLING):
                await asyncio.gather(*(wave.finish() for wave in waves))

    async def _never_begun(self, call: CallToClaim, claim: Claim | None) -> None:
        """The service stops. A retryable call is retried when its lease has expired; a program claims again."""
        if claim is not None and not call.terms.idempotent and call.terms.claim_hash is None:
            await self._report_unbegun(claim)

    async def _approved_never_begun(self, _call: ApprovedCall, begun: BegunCall | None) -> None:
        if begun is not None and not begun.terms.idempotent:
            await self._report_unbegun(begun.claim)

    async def _report_unbegun(self, claim: Claim) -> None:
        outcome = calls.undone(claim, "the service stopped before it began")
        await self.reports.join(AttemptReport(claim, outcome))

    async def _give_back(self, _run_id: UUID, leased: LeasedRun | None) -> None:
        """The service stops: another worker may make the turn at once."""
        if leased is not None:
            await runs.release(self._db, leased.lease, 0)

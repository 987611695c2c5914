"""What this process writes for many runs together."""

from __future__ import annotations

from functools import partial

from agent.database.pools import Database
from agent.runtime.waves import Wave
from agent.usecases import executions
from agent.usecases.executions import Claim, Outcome, Report


class JointWrites:
    """The waves of a process."""

    def __init__(self, db: Database) -> None:
        self._reports: Wave[Report, bool] = Wave(
            partial(executions.report_together, db), keys=lambda report: {report.claim.run_id}
        )

    async def report(self, claim: Claim, outcome: Outcome) -> bool:
        """``executions.report``."""
        return await self._reports.join(Report(claim, outcome))

"""Starting a run: its row, its first message, its thread, in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from agent.database.pools import Database
from agent.domain.run import NewRun
from agent.store import run_starts, runs
from agent.store.ids import new_id


@dataclass(frozen=True, slots=True)
class StartOutcome:
    """The run that stands for this start; ``created`` is false when it was there already."""

    run_id: UUID
    created: bool


async def start(db: Database, new: NewRun) -> StartOutcome:
    """Run, first transcript row, thread and hint together. Starting again with the same key finds the run."""
    run_id = new_id()
    async with db.transaction() as tx:
        if not await run_starts.begin_run(tx, run_id, new):
            return StartOutcome(await runs.run_by_start_key(tx, new.start_key), created=False)
    return StartOutcome(run_id, created=True)

"""Tries every five seconds whether the database stores anything.

Only this decides whether the process is ready, so no caller's input can; and behind a balancer it finds out that the
database writes again, while nobody else tries.
"""

from __future__ import annotations

import asyncio

from agent.database.background import start_task
from agent.database.errors import DatabaseRefuses
from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.usecases import probe_write

PACE = 5.0
"""Seconds."""

PATIENCE = 5.0
"""Seconds for a write; a slow one tells nothing."""


class WriteProbe:
    """``problem``: why nothing is stored at the moment."""

    def __init__(self, db: Database, pace: float = PACE) -> None:
        self._db = db
        self._pace = pace
        self._task: asyncio.Task[None] | None = None
        self.problem: str | None = None

    async def start(self) -> None:
        """Returns after the first write."""
        await self.look()
        self._task = start_task(self._repeat(), "write probe")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await probe_write.run(self._db)
        except DatabaseRefuses as error:
            self.problem = f"refuses to write: {error.reason}"
            log_failure("the database refuses to write", error, action="database.refuses")
        except Exception as error:
            # Reading says whether it is away; a pool that callers use up, or a lock, must not change what was known.
            log_failure("a test write was not answered", error, action="database.unanswered")
        else:
            self.problem = None

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(self._pace)
            await self.look()

"""Waiting for something to change, for any number of callers at the cost of one look at the database.

Nobody who waits holds a thread or a connection: one task looks, four times a second, and only while somebody waits.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from uuid import UUID

import structlog

from agent.store import reads
from agent.store.database import Database

log = structlog.get_logger(__name__)

PACE = 0.25
"""Seconds between two looks."""

ANYTHING = "anything"


class Watch:
    """Tells waiters when a request or a run, or anything at all, is no longer as they saw it.

    How a thing stands is a token: an opaque text that is another one after every change.
    """

    def __init__(self, db: Database, pace: float = PACE) -> None:
        self._db = db
        self._pace = pace
        self._wanted: Counter[str] = Counter()
        self._tokens: dict[str, str] = {}
        self._looked = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self.closing = False
        """The service stops: nobody is kept waiting, and whoever waits in a loop leaves it."""

    @property
    def waiting(self) -> int:
        """How many wait here now."""
        return self._wanted.total()

    async def request(self, request_id: UUID, seen: str | None, seconds: float) -> str:
        """The request's token, as soon as it is not ``seen``, or after so many seconds whatever it is."""
        return await self._until(f"request:{request_id}", seen, seconds)

    async def run(self, run_id: UUID, seen: str | None, seconds: float) -> str:
        """The same for a run."""
        return await self._until(f"run:{run_id}", seen, seconds)

    async def anything(self, seen: str | None, seconds: float) -> str:
        """The same for everything that is recorded."""
        return await self._until(ANYTHING, seen, seconds)

    async def let_go(self) -> None:
        """Let everybody go who waits here, now and from now on."""
        self.closing = True
        async with self._looked:
            self._looked.notify_all()

    async def stop(self) -> None:
        """Look no more; those who wait are let go at their time."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _until(self, subject: str, seen: str | None, seconds: float) -> str:
        """A token that stems from a look which began after the call did: what was there before is not missed."""
        deadline = time.monotonic() + seconds
        self._wanted[subject] += 1
        if self._wanted[subject] == 1:
            self._tokens.pop(subject, None)
        try:
            self._rouse()
            async with self._looked:
                while (token := self._tokens.get(subject)) is None or token == seen:
                    left = deadline - time.monotonic()
                    if left <= 0 or self.closing:
                        break
                    with suppress(TimeoutError):
                        async with asyncio.timeout(left):
                            await self._looked.wait()
            return token or seen or ""
        finally:
            self._wanted[subject] -= 1
            if not self._wanted[subject]:
                del self._wanted[subject]
                self._tokens.pop(subject, None)

    def _rouse(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look(), name="watch")

    async def _look(self) -> None:
        while self._wanted:
            subjects = list(self._wanted)
            try:
                async with self._db.connection() as connection:
                    found = await reads.tokens(connection, [each for each in subjects if each != ANYTHING])
                    if ANYTHING in subjects:
                        found[ANYTHING] = await reads.pulse(connection)
            except Exception as error:  # whatever it is, the next look may succeed; nobody is told a change
                log.warning("a look failed", action="watch.failed", error=str(error) or type(error).__name__)
                found = {}
            async with self._looked:
                self._tokens.update((each, token) for each, token in found.items() if each in self._wanted)
                self._looked.notify_all()
            await asyncio.sleep(self._pace)

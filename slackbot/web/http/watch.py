"""Wait for changes: any number of callers, one database poll.

Waiters hold no thread or connection: one task polls while anybody waits. Decisions of this process wake waiters
immediately.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from agent.database.background import start_task
from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.domain.audit import request_subject, run_subject
from agent.store import views

PACE = 0.25
"""Seconds between polls for recent changes."""

SWEEP = 3.0
"""Seconds between full polls of all watched subjects. Recent changes are only a hint."""

ANYTHING = "anything"


@dataclass(slots=True)
class _Watched:
    """The last token, and waiters with the token that each has seen."""

    token: str = ""
    waiters: dict[asyncio.Future[str], str | None] = field(default_factory=dict)

    def is_now(self, token: str) -> None:
        self.token = token
        for future, seen in self.waiters.items():
            if seen != token and not future.done():
                future.set_result(token)


class ChangeWatch:
    """Wakes waiters when a request, a run, or anything changes, by an opaque token."""

    def __init__(self, db: Database, pace: float = PACE) -> None:
        self._db = db
        self._pace = pace
        self._watched: dict[str, _Watched] = {}
        self._task: asyncio.Task[None] | None = None
        self._sweep_at = 0.0
        self._unsubscribe = db.on_ending(self._ended)
        self.closing = False
        """The service is stopping: waits return at once, and loops that wait end."""

    @property
    def waiting(self) -> int:
        return sum(len(watched.waiters) for watched in self._watched.values())

    def request(self, request_id: UUID, recorded: int, seconds: float) -> Awaitable[str]:
        """The request's number of audit entries, once it differs from ``recorded``."""
        return self._until(request_subject(request_id), str(recorded), seconds)

    async def run(self, run_id: UUID, seen: str | None, seconds: float) -> str:
        """The run's token once it differs from ``seen``, or the current one after ``seconds``."""
        return await self._until(run_subject(run_id), seen, seconds)

    async def anything(self, seen: str | None, seconds: float) -> str:
        return await self._until(ANYTHING, seen, seconds)

    async def let_go(self) -> None:
        """Release all waiters, now and from now on."""
        self.closing = True
        for watched in self._watched.values():
            for future, seen in watched.waiters.items():
                if not future.done():
                    future.set_result(watched.token or seen or "")

    async def stop(self) -> None:
        """Stop polling; waiters return at their time limit."""
        self._unsubscribe()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _until(self, subject: str, seen: str | None, seconds: float) -> str:
        """Changes before the call are not missed: `recently_changed` looks back, and the sweep covers everything."""
        if self.closing:
            return seen or ""
        watched = self._watched.setdefault(subject, _Watched(seen or ""))
        if watched.token and seen is None:
            return watched.token
        if watched.token != seen:  # one is stale: the next poll tells which
            watched.token = ""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        watched.waiters[future] = seen
        self._ensure_running()
        clock = asyncio.get_running_loop().call_later(seconds, self._time_is_up, watched, future)
        try:
            return await future
        finally:
            clock.cancel()
            del watched.waiters[future]
            if not watched.waiters:
                self._watched.pop(subject, None)

    @staticmethod
    def _time_is_up(watched: _Watched, future: asyncio.Future[str]) -> None:
        if not future.done():
            future.set_result(watched.token or watched.waiters[future] or "")

    def _ended(self, request_id: UUID, recorded: int) -> None:
        """A request's token is its number of audit entries; a run's is different."""
        if (watched := self._watched.get(request_subject(request_id))) is not None:
            watched.is_now(str(recorded))

    def _ensure_running(self) -> None:
        if self._task is None or self._task.done():
            self._task = start_task(self._look(), "watch")

    async def _look(self) -> None:
        while self._watched:
            try:
                found = await self._found()
            except Exception as error:  # the next poll may succeed
                log_failure("a poll failed", error, action="watch.failed")
                self._sweep_at = 0.0
                found = {}
            for subject, token in found.items():
                if (watched := self._watched.get(subject)) is not None:
                    watched.is_now(token)
            await asyncio.sleep(self._pace)

    async def _found(self) -> dict[str, str]:
        """Tokens that may have changed: for requests, only new or recently changed ones."""
        sweeps = time.monotonic() >= self._sweep_at
        known = {
            subject: watched.token
            for subject, watched in self._watched.items()
            if sweeps or not watched.token or not subject.startswith("request:")
        }
        async with self._db.connection() as connection:
            found = {} if sweeps else await views.recently_changed(connection)
            if others := {name: token for name, token in known.items() if name != ANYTHING}:
                found |= await views.changed_subjects(connection, others)
            if ANYTHING in known:
                found[ANYTHING] = await views.change_token(connection)
        if sweeps:
            self._sweep_at = time.monotonic() + SWEEP
        return found

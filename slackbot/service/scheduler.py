"""The timer for sweeps. Any number may run: sweeps are idempotent, and the database knows what is due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from time import monotonic

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from agent.database.pools import Database
from agent.domain.policy import Policy
from agent.store import overdue
from agent.store.outbox import Destination
from agent.usecases import (
    api_keys,
    deliveries,
    executions,
    idempotency,
    limits,
    observations,
    outbound,
    requests,
    runs,
    search,
)
from agent.usecases.executions import external
from slackbot.masking.search_words import words_of_request

log = structlog.get_logger(__name__)

Sweep = Callable[[Database], Awaitable[int]]

LOOK = 1.0
"""Seconds between polls for due sweeps."""

OVERDUE: dict[str, Sweep] = {
    "expire": requests.expire_due,
    "remind": requests.remind_due,
    "rescue": executions.rescue,
    "lapse": external.lapse_due,
    "orphans": runs.end_orphans,
    "search": partial(search.store_words, words_of=words_of_request),
}

EVERY: dict[str, tuple[Sweep, float]] = {
    "pauses": (deliveries.bound_pauses, 60.0),
    "replies": (idempotency.delete_old, 60.0),
    "key_uses": (api_keys.forget_uses, 60.0),
    "limits": (limits.settle_ended, 5.0),
    "forget_notices": (outbound.forget, 3600.0),
}
"""Sweeps without a poll, and the seconds in between."""


class Scheduler:
    """Runs sweeps until stopped. ``admin``: the operators' channel, once known."""

    def __init__(
        self,
        db: Database,
        policy: Policy | None = None,
        admin: Callable[[], Destination | None] = lambda: None,
        *,
        schedules: Sweep | None = None,
    ) -> None:
        self._db = db
        self._overdue = OVERDUE if schedules is None else {**OVERDUE, "schedules": schedules}
        self._admin = admin
        self._timer = AsyncIOScheduler(timezone="UTC")
        self._swept: float | None = None
        self._sweeping: dict[str, asyncio.Task[None]] = {}
        self._add("look", LOOK, self._look)
        self.policy = policy or Policy()
        own: dict[str, tuple[Sweep, float]] = {
            "unfold": (self._unfold, 5.0),
            "observed": (self._report_week, 600.0),
        }
        for name, (sweep, seconds) in {**EVERY, **own}.items():
            self._add(name, seconds, self._run, name, sweep)

    def _add(self, name: str, seconds: float, do: Callable[..., Awaitable[None]], *args: object) -> None:
        self._timer.add_job(
            do,
            "interval",
            seconds=seconds,
            args=args,
            id=name,
            next_run_time=datetime.now(UTC),  # an earlier process's work need not wait
            misfire_grace_time=None,
            coalesce=True,
            max_instances=1,
        )

    @property
    def age(self) -> float | None:
        """Seconds since a sweep last ended, for health checks."""
        return None if self._swept is None else monotonic() - self._swept

    def start(self) -> None:
        self._timer.start()

    def stop(self) -> None:
        if self._timer.running:
            self._timer.shutdown(wait=False)
        for task in self._sweeping.values():
            task.cancel()

    async def _unfold(self, db: Database) -> int:
        return await deliveries.unfold(db, cards_per_minute=self.policy.defaults.cards_per_minute)

    async def _report_week(self, db: Database) -> int:
        return await observations.report_week(db, self.policy, self._admin())

    async def _look(self) -> None:
        await self._run("look", self._begin_due)

    async def _begin_due(self, db: Database) -> int:
        due = await db.read(overdue.find)
        for name in due:
            if name not in self._sweeping and name in self._overdue:
                task = asyncio.create_task(self._run(name, self._overdue[name]), name=f"sweep:{name}")
                self._sweeping[name] = task
                task.add_done_callback(partial(self._forget, name))
        return 0

    def _forget(self, name: str, _: object) -> None:
        del self._sweeping[name]

    async def _run(self, name: str, sweep: Sweep) -> None:
        try:
            found = await sweep(self._db)
        except asyncio.CancelledError:
            return  # nothing was written; APScheduler would log a failure
        except Exception as error:  # for example a deadlock: the next sweep finds the same work
            log.warning(
                "a sweep failed; the next one retries",
                action="sweep.failed",
                sweep=name,
                error=str(error) or type(error).__name__,
            )
            return
        self._swept = monotonic()
        if found:
            log.info("sweep found work", action="sweep.found", sweep=name, count=found)

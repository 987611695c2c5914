"""The timer for sweeps. Any number may run: sweeps are idempotent, and the database knows what is due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from time import monotonic

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from agent.database.background import start_task
from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.domain.policy import Policy
from agent.store import overdue
from agent.store.outbox import Destination
from agent.usecases import (
    api_keys,
    calls,
    deliveries,
    failing_sweeps,
    forgetting,
    idempotency,
    limits,
    requests,
    runs,
    search,
    week,
)
from slackbot.masking.search_words import words_of_request

log = structlog.get_logger(__name__)

Sweep = Callable[[Database], Awaitable[int]]

LOOK = 1.0
"""Seconds between polls for due sweeps."""

KEEPS_FAILING = 3
"""Failures running, after which operators are told."""

OVERDUE: dict[str, Sweep] = {
    "expire": requests.expire_due,
    "remind": requests.remind_due,
    "rescue": calls.rescue,
    "lapse": requests.lapse_due,
    "orphans": runs.end_orphans,
    "search": partial(search.store_words, words_of=words_of_request),
}

EVERY: dict[str, tuple[Sweep, float]] = {
    "pauses": (deliveries.bound_pauses, 60.0),
    "replies": (idempotency.delete_old, 60.0),
    "key_uses": (api_keys.forget_uses, 60.0),
    "limits": (limits.settle_ended, 5.0),
    "forget_notices": (forgetting.notices, 3600.0),
    "forget_messages": (forgetting.messages, 3600.0),
}
"""Sweeps without a poll, and the seconds in between."""


class Scheduler:
    """Runs sweeps until stopped. ``admin``: the operators' channel, once known.

    ``due`` and ``timed``: more sweeps, like those of ``OVERDUE`` and ``EVERY``.
    """

    def __init__(
        self,
        db: Database,
        policy: Policy | None = None,
        admin: Callable[[], Destination | None] = lambda: None,
        *,
        due: Mapping[str, Sweep] = {},
        timed: Mapping[str, tuple[Sweep, float]] = {},
    ) -> None:
        self._db = db
        self._overdue = {**OVERDUE, **due}
        self._every: dict[str, tuple[Sweep, float]] = {
            **EVERY,
            "unfold": (self._unfold, 5.0),
            "week": (self._report_week, 600.0),
            "recovered": (self._note_recovered, 60.0),
            **timed,
        }
        self._admin = admin
        self._timer = AsyncIOScheduler(timezone="UTC")
        self._swept: float | None = None
        self._sweeping: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, int] = {}
        """Of each sweep, running; 0: it works here."""
        self._add("look", LOOK, self._look)
        self.policy = policy or Policy()
        for name, (sweep, seconds) in self._every.items():
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

    @property
    def sweeps(self) -> dict[str, Sweep]:
        """All sweeps by their names, the look for due ones among them."""
        timed = {name: sweep for name, (sweep, _) in self._every.items()}
        return {"look": self._begin_due, **self._overdue, **timed}

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
        return await week.report_week(db, self.policy, self._admin())

    async def _look(self) -> None:
        await self._run("look", self._begin_due)

    async def _begin_due(self, db: Database) -> int:
        due = await db.read(overdue.find)
        for name, sweep in self._overdue.items():
            if name in self._sweeping:
                continue
            if name in due:
                task = start_task(self._run(name, sweep), f"sweep:{name}")
                self._sweeping[name] = task
                task.add_done_callback(partial(self._forget, name))
            else:
                await self._note_success(name)
        return 0

    async def _note_recovered(self, db: Database) -> int:
        """Sweeps that failed in another process, and work in this one."""
        failing = await failing_sweeps.list_failing(db)
        for name in failing:
            if self._failures.get(name) == 0 or name not in self.sweeps:
                await failing_sweeps.note_recovered(db, name)
        return 0

    def _forget(self, name: str, _: object) -> None:
        del self._sweeping[name]

    async def _run(self, name: str, sweep: Sweep) -> None:
        try:
            found = await sweep(self._db)
        except asyncio.CancelledError:
            return  # nothing was written; APScheduler would log a failure
        except Exception as error:  # for example a deadlock: the next sweep finds the same work
            log_failure("a sweep failed; the next one retries", error, action="sweep.failed", sweep=name)
            await self._note_failure(name, error)
            return
        self._swept = monotonic()
        if found:
            log.info("sweep found work", action="sweep.found", sweep=name, count=found)
        await self._note_success(name)

    async def _note_failure(self, name: str, error: Exception) -> None:
        self._failures[name] = self._failures.get(name, 0) + 1
        kind = type(getattr(error, "orig", None) or error).__name__
        keeps_failing = self._failures[name] >= KEEPS_FAILING
        if keeps_failing and await _recorded(name, failing_sweeps.note_failing(self._db, name, kind)):
            log.error("a sweep keeps failing", action="sweep.keeps_failing", sweep=name, error=kind)

    async def _note_success(self, name: str) -> None:
        failures, self._failures[name] = self._failures.get(name, 0), 0
        if failures >= KEEPS_FAILING and await _recorded(name, failing_sweeps.note_recovered(self._db, name)):
            log.info("a sweep works again", action="sweep.recovered", sweep=name)


async def _recorded(name: str, change: Awaitable[bool]) -> bool:
    """False also if it could not be recorded; later runs try again."""
    try:
        return await change
    except Exception as error:
        log_failure("a sweep's failures were not recorded", error, action="sweep.unrecorded", sweep=name)
        return False

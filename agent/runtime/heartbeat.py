"""One statement renews all leases of the process."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.domain.run import RunLease
from agent.usecases import calls

INTERVAL = 2.0
"""Seconds; a lease lasts five beats, so up to four may fail."""


_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def lease_clock() -> float:
    """Seconds that count while the machine sleeps, as leases do (Linux: ``CLOCK_BOOTTIME``)."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class Heartbeat:
    """A lost lease needs no signal: every write checks it."""

    def __init__(self, db: Database, worker: str, interval: float = INTERVAL) -> None:
        self._db = db
        self._worker = worker
        self._interval = interval
        self._runs: set[RunLease] = set()
        self._executions: dict[UUID, float] = {}

    @contextmanager
    def holding_run(self, lease: RunLease) -> Iterator[None]:
        self._runs.add(lease)
        try:
            yield
        finally:
            self._runs.discard(lease)

    @contextmanager
    def holding_execution(self, execution_id: UUID, asked_at: float) -> Iterator[None]:
        """``asked_at``: when the lease was requested, by ``lease_clock``."""
        self._executions[execution_id] = asked_at + calls.LEASE_SECONDS
        try:
            yield
        finally:
            del self._executions[execution_id]

    def holds_lease(self, execution_id: UUID) -> bool:
        """A stopped process knows only by its clock. Thread-safe."""
        return lease_clock() < self._executions.get(execution_id, 0.0)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await self.beat()

    async def beat(self) -> None:
        if not self._runs and not self._executions:
            return
        asked_at = lease_clock()
        try:
            renewed = await calls.renew_leases(
                self._db, self._worker, list(self._executions), list(self._runs)
            )
        except Exception as error:  # a dead heartbeat loses every lease
            log_failure("leases were not extended", error, action="heartbeat.failed")
            return
        for execution_id in renewed:
            if self.holds_lease(execution_id):  # an expired lease is not extended, nor one released meanwhile
                self._executions[execution_id] = asked_at + calls.LEASE_SECONDS

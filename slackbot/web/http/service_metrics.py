"""The figures of `/metrics` and `/readyz`, read from the database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.database.errors import DatabaseError
from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.domain.limits import Limit
from agent.domain.run import RunStatus
from agent.store import views
from agent.usecases import limits

PACE = 5.0
"""Seconds for which a reading is reused."""

QUEUES = ("runs", "calls", "notices")

PATIENCE = 2.0
"""Seconds to wait for the database; then its metrics are omitted."""


@dataclass(frozen=True, slots=True)
class ProcessPart:
    """``None``: this process does not have that role."""

    draining: bool
    slack: bool
    worker: bool | None
    scheduler_age: float | None
    web: bool | None = None
    writes: bool = True


class ServiceMetrics:
    """A source of the service's figures, which it reads from the database every five seconds at most."""

    def __init__(
        self,
        db: Database,
        part: Callable[[], ProcessPart],
        limits: Callable[[], Sequence[Limit]],
        pace: float = PACE,
    ) -> None:
        self._db = db
        self._part = part
        self._limits = limits
        self._pace = pace
        self._known: views.ServiceCounts | None = None
        self._used: Mapping[str, float] = {}
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def known(self) -> views.ServiceCounts | None:
        """At most five seconds old; ``None`` if the database did not answer."""
        async with self._reading:
            if time.monotonic() - self._read_at >= self._pace:
                self._known = await self._read()
                self._used = await self._read_limits()
                self._read_at = time.monotonic()
        return self._known

    async def summary(self) -> dict[str, Any]:
        """The counts that show whether people are notified of waiting requests."""
        known = await self.known()
        if known is None:
            return {}
        return {
            "undelivered_cards": known.undelivered_cards,
            "oldest_undelivered_seconds": round(known.oldest_undelivered, 1),
            "dead_messages": known.dead_messages,
            "channels_in_trouble": known.channels_in_trouble,
            "overdue_requests": known.overdue,
            "dead_notices": known.dead_notices,
            "failing_sweeps": sorted(f"{name} ({error})" for name, error in known.failing_sweeps.items()),
        }

    async def exposition(self) -> bytes:
        return generate_latest() + generate_latest(_Families(list(self._families(await self.known()))))

    async def _read(self) -> views.ServiceCounts | None:
        try:
            async with asyncio.timeout(PATIENCE), self._db.connection() as connection:
                return await views.service_counts(connection)
        except Exception as error:  # whatever it is, answer with what is available
            log_failure("metrics could not be read", error, action="figures.failed")
            return None

    async def _read_limits(self) -> Mapping[str, float]:
        """Each limit's share used by its heaviest user; empty if the database did not answer in time."""
        of = [limit for limit in self._limits() if limit.max]
        with suppress(TimeoutError, DatabaseError):
            async with asyncio.timeout(PATIENCE):
                found = await limits.by_subject(self._db, of, most=1) if of else []
            most = {each.limit: each.used for each in found}
            return {limit.name: float(most.get(limit.name, Decimal(0)) / limit.max) for limit in of}
        return {}

    def _families(self, known: views.ServiceCounts | None) -> Iterator[Metric]:
        yield _gauge(
            "signoff_database_up",
            "Whether the figures below could be read from the database.",
            known is not None,
        )
        part = self._part()
        yield _gauge(
            "signoff_database_writable", "Whether the last test write of this process succeeded.", part.writes
        )
        yield _gauge("signoff_draining", "Whether this process is stopping.", part.draining)
        yield _gauge(
            "signoff_slack_connected", "Whether Slack can be reached and accepts messages.", part.slack
        )
        if part.web is not None:
            yield _gauge(
                "signoff_web_alive",
                "Whether this process takes clicks, pages and calls of programs.",
                part.web,
            )
        if part.worker is not None:
            yield _gauge("signoff_worker_alive", "Whether this process works on every queue.", part.worker)
        if part.scheduler_age is not None:
            yield _gauge(
                "signoff_scheduler_age_seconds",
                "Seconds since a sweep of this process last ended.",
                part.scheduler_age,
            )
        tasks = len(asyncio.all_tasks())
        yield _gauge("signoff_tasks", "Tasks in this process; waiting requests are not among them.", tasks)
        yield self._pools()
        if known is not None:
            yield from _of_database(known)
        yield _labelled(
            "signoff_limit_used_ratio",
            "The used share of a limit over time, for its most used subject; 1 is all of it.",
            "limit",
            list(self._used),
            self._used,
        )

    def _pools(self) -> Metric:
        family = GaugeMetricFamily(
            "signoff_database_connections", "Database connections of this process.", labels=["pool", "state"]
        )
        for pool in self._db.pools():
            family.add_metric([pool.name, "in_use"], pool.in_use)
            family.add_metric([pool.name, "most"], pool.most)
        return family


@dataclass(frozen=True, slots=True)
class _Families(Collector):
    families: list[Metric]

    def collect(self) -> Iterator[Metric]:
        return iter(self.families)


def _of_database(known: views.ServiceCounts) -> Iterator[Metric]:
    """Identical in every process: aggregate with max, not sum."""
    for name, words, value in (
        ("requests_waiting", "Requests that wait for people.", known.waiting),
        ("requests_overdue", "Requests past their deadline that no sweep has ended yet.", known.overdue),
        ("oldest_waiting_seconds", "Age of the oldest of them.", known.oldest_waiting),
        (
            "undelivered_cards",
            "Cards whose latest state Slack does not have.",
            known.undelivered_cards,
        ),
        ("undelivered_lines", "Thread lines not yet sent to Slack.", known.undelivered_lines),
        ("oldest_undelivered_seconds", "Age of the oldest of both.", known.oldest_undelivered),
        ("messages_dead", "Messages that Slack refused and that were given up.", known.dead_messages),
        ("channels_in_trouble", "Channels that accept no messages.", known.channels_in_trouble),
        ("notices_pending", "Webhook calls and e-mails to send.", known.pending_notices),
        ("oldest_notice_seconds", "Age of the oldest of them.", known.oldest_notice),
        ("notices_dead", "Webhook calls and e-mails that were given up.", known.dead_notices),
        ("calls_in_doubt", "Calls of which nobody knows whether they happened.", known.in_doubt),
        ("grants_live", "Live grants.", known.live_grants),
        ("sweeps_failing", "Sweeps that failed three times running.", len(known.failing_sweeps)),
    ):
        yield _gauge(f"signoff_{name}", words, value)
    at_work = [RunStatus.WORKING.value, RunStatus.PENDING_APPROVAL.value]
    yield _labelled("signoff_runs", "Runs that have not ended, by status.", "status", at_work, known.runs)
    yield _labelled("signoff_queue_depth", "Due work that nobody has begun.", "queue", QUEUES, known.queues)


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value=float(value))


def _labelled(
    name: str, words: str, label: str, values: list[str] | tuple[str, ...], counts: Mapping[str, float]
) -> Metric:
    """One sample for every possible value: no series comes and goes."""
    family = GaugeMetricFamily(name, words, labels=[label])
    for value in values:
        family.add_metric([value], counts.get(value, 0))
    return family

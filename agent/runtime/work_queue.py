"""Work of one kind: a bounded number of tasks, one per item, agents taking turns."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

import structlog

from agent.database.background import start_task
from agent.database.errors import DatabaseError
from agent.database.failure_log import log_failure
from agent.database.wakeups import Wakeup
from agent.domain.errors import NoRoom
from agent.runtime import shutdown
from signoff.backoff import Backoff
from signoff.errors import SignoffError

log = structlog.get_logger(__name__)

RESTS = Backoff(first=2.0, longest=60.0)
"""Seconds that polling skips a failed item, doubled each time except for database errors. Wake-ups retry at once."""

LAST_EVERY = 8
"""While both wait, at least one of so many items taken has the lowest priority: slowed down, never stopped."""

MAX_FAILURES = 10_000
"""Then all counts start over."""

_give_back: ContextVar[Callable[[], None]] = ContextVar("give_back", default=lambda: None)

MOST = 1000
"""Per agent; polling finds the rest."""

_Waiting = OrderedDict[UUID | str, Wakeup]


@dataclass(slots=True)
class _Lane:
    first: _Waiting = field(default_factory=OrderedDict)
    rest: _Waiting = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self.first) + len(self.rest)


class FairQueue:
    """Distinct wake-ups: agents in turn, urgent ones first."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lanes: OrderedDict[str | None, _Lane] = OrderedDict()

    def __len__(self) -> int:
        return sum(len(lane) for lane in self._lanes.values())

    def put(self, wakeup: Wakeup) -> bool:
        """False: too much of its agent is waiting."""
        lane = self._lanes.setdefault(wakeup.agent, _Lane())
        if wakeup.key in lane.first:
            return True
        known = wakeup.key in lane.rest
        if not known and len(lane) >= self._most:
            return False
        if wakeup.first:
            lane.rest.pop(wakeup.key, None)
            lane.first[wakeup.key] = wakeup
        elif not known:
            lane.rest[wakeup.key] = wakeup
        return True

    def pop(self) -> Wakeup | None:
        if not self._lanes:
            return None
        agent, lane = next(iter(self._lanes.items()))
        _, wakeup = (lane.first or lane.rest).popitem(last=False)
        if lane:
            self._lanes.move_to_end(agent)
        else:
            del self._lanes[agent]
        return wakeup


def give_back_slot() -> None:
    """Release the slot of a task that only has to write its result.

    Writes are batched. With their slots kept, votes would have calls claimed alone, at 1.6 times the processor time.
    At most as many tasks as slots write at a time, which bounds what a crash leaves in doubt.
    """
    _give_back.get()()


class WorkQueue:
    """Calls ``on_free_slot`` when less work waits than there are slots."""

    def __init__(
        self,
        work: Callable[[Wakeup], Awaitable[None]],
        slots: int,
        on_free_slot: Callable[[], None],
        give_way: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``give_way``: awaited before work of the lowest priority, which has a quarter of the slots."""
        self._work = work
        self._slots = slots
        self._on_free_slot = on_free_slot
        self._give_way = give_way
        self._waiting = FairQueue()
        self._waiting_last = FairQueue()
        self._last_at_work: set[Any] = set()
        self._passed_over = 0
        self._at_work: dict[Any, Wakeup | None] = {}
        self._resting: set[Any] = set()
        self._failures: dict[Any, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._without_slot: set[Any] = set()
        self._reserved = 0
        self._unreserved = asyncio.Event()
        self._unreserved.set()
        self._stopping = False

    @property
    def busy(self) -> bool:
        return self._free <= 0

    @property
    def _free(self) -> int:
        return self._slots - len(self._tasks) + len(self._without_slot) - self._reserved

    def reserve(self, most: int) -> int:
        """Reserve free slots for ``run``; returns how many. Use or release all of them soon."""
        free = 0 if self._stopping else max(0, self._free)
        self._keep(min(most, free))
        return min(most, free)

    def release(self, number: int) -> None:
        self._keep(-number)
        self._begin()

    def run(self, wakeup: Wakeup, work: Coroutine[Any, Any, None]) -> None:
        """Use a reserved slot, even if the service stops: for others the work has begun."""
        self._keep(-1)
        self._start(wakeup, work)

    def _keep(self, slots: int) -> None:
        self._reserved += slots
        if self._reserved:
            self._unreserved.clear()
        else:
            self._unreserved.set()

    def take(self, wakeup: Wakeup) -> None:
        """Running work is checked once more afterwards."""
        if wakeup.key in self._at_work:
            self._at_work[wakeup.key] = wakeup
        elif not self._stopping:
            self._put(wakeup)
            self._begin()

    def found(self, wakeup: Wakeup) -> None:
        """Skip work that is running or just failed."""
        if wakeup.key not in self._at_work and wakeup.key not in self._resting:
            self.take(wakeup)

    async def stop(self, seconds: float) -> None:
        """Running work may end within ``seconds``."""
        self._stopping = True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._unreserved.wait()
        await shutdown.end_tasks(self._tasks, seconds)

    def _put(self, wakeup: Wakeup) -> None:
        (self._waiting_last if wakeup.last else self._waiting).put(wakeup)

    def _begin(self) -> None:
        while not self._stopping and not self.busy and (wakeup := self._next()):
            if wakeup.key in self._at_work:  # queued twice: urgent and not
                self._at_work[wakeup.key] = wakeup
            else:
                self._start(wakeup, self._work_last(wakeup) if wakeup.last else self._work(wakeup))
        if len(self._waiting) + len(self._waiting_last) < self._slots:
            self._on_free_slot()

    async def _work_last(self, wakeup: Wakeup) -> None:
        if self._give_way is not None:
            await self._give_way()
        await self._work(wakeup)

    def _next(self) -> Wakeup | None:
        if not self._waiting_last or len(self._last_at_work) >= max(1, self._slots // 4):
            return self._waiting.pop()
        if self._passed_over < LAST_EVERY - 1 and (wakeup := self._waiting.pop()):
            self._passed_over += 1
            return wakeup
        self._passed_over = 0
        return self._waiting_last.pop()

    def _start(self, wakeup: Wakeup, work: Awaitable[None]) -> None:
        self._at_work[wakeup.key] = None
        if wakeup.last:
            self._last_at_work.add(wakeup.key)
        task = start_task(self._do(wakeup, work), f"{wakeup.kind}:{wakeup.key}")
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, wakeup))

    async def _do(self, wakeup: Wakeup, work: Awaitable[None]) -> None:
        _give_back.set(partial(self._free_slot, wakeup.key))
        try:
            await work
            self._failures.pop(wakeup.key, None)
        except NoRoom:
            self._rest(wakeup.key, RESTS.first)
        except Exception as error:
            # A database error says nothing about the work, which is retried soon.
            is_database = isinstance(error, DatabaseError)
            self._rest(wakeup.key, RESTS.first if is_database else self._count_failure(wakeup.key))
            if isinstance(error, SignoffError):  # a later poll finds it again
                log_failure(
                    "work failed; a later poll retries it", error, action="work.failed", **_names(wakeup)
                )
            else:
                log.exception("work failed; a later poll retries it", action="work.broken", **_names(wakeup))

    def _free_slot(self, key: UUID | str) -> None:
        if key in self._at_work and len(self._without_slot) < self._slots:
            self._without_slot.add(key)
            self._begin()

    def _count_failure(self, key: UUID | str) -> float:
        """Returns for how many seconds it is skipped."""
        if len(self._failures) >= MAX_FAILURES:
            self._failures.clear()
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return RESTS.after(failures)

    def _rest(self, key: UUID | str, seconds: float) -> None:
        self._resting.add(key)
        asyncio.get_running_loop().call_later(seconds, self._resting.discard, key)

    def _ended(self, wakeup: Wakeup, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._without_slot.discard(wakeup.key)
        self._last_at_work.discard(wakeup.key)
        again = self._at_work.pop(wakeup.key)
        if again is not None and not self._stopping:
            self._put(again)
        self._begin()


def _names(wakeup: Wakeup) -> dict[str, Any]:
    return {"kind": wakeup.kind.value, "key": str(wakeup.key), "agent": wakeup.agent}

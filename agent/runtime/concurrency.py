"""What claims wait for: running calls counted across processes, and limits over time that had no room lately."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from uuid import UUID

from agent.database.wakeups import Wakeup
from agent.domain.errors import NoRoom
from agent.domain.limits import LimitState, Use
from agent.runtime.agents import Agent
from agent.runtime.tool import Tool
from agent.store.concurrency import ConcurrencyLimit

MAX_WAITING = 10_000
"""Per limit; polling finds the others."""


def limits_of(agent_name: str, agent: Agent | None, tool: Tool) -> list[ConcurrencyLimit]:
    """Return the limits on concurrent calls that the tool and the agent set, if any."""
    found = []
    if tool.concurrency is not None:
        found.append(ConcurrencyLimit(agent_name, tool.name, tool.concurrency, tool.across_processes))
    if agent is not None and agent.concurrency is not None:
        found.append(ConcurrencyLimit(agent_name, None, agent.concurrency, agent.across_processes))
    return found


class Concurrency:
    """The count of this process's running calls by limit, and the queue of those that wait for room."""

    def __init__(self, wake: Callable[[Sequence[Wakeup]], object], announce: Callable[[], object]) -> None:
        self._wake = wake
        self._announce = announce
        self._running: Counter[ConcurrencyLimit] = Counter()
        self._waiting: defaultdict[ConcurrencyLimit, OrderedDict[UUID | str, Wakeup]] = defaultdict(
            OrderedDict
        )

    @contextmanager
    def running(self, call: Wakeup, limits: Collection[ConcurrencyLimit]) -> Iterator[None]:
        """Count a running call; a block that raises NoRoom has not run it. Raises NoRoom."""
        for limit in limits:
            if self._running[limit] >= limit.most:
                self._wait(call, limit)
                raise NoRoom(f"{limit.most} of {limit.name} run already")
        for limit in limits:
            self._waiting[limit].pop(call.key, None)
        self._running.update(limits)
        try:
            yield
        except NoRoom:
            self._running.subtract(limits)
            for limit in limits:
                if limit.across_processes:
                    self._wait(call, limit)
            raise
        except BaseException:
            self._ended(limits)
            raise
        self._ended(limits)

    def waits(self, key: UUID | str) -> bool:
        return any(key in waiting for waiting in self._waiting.values())

    def wake_waiting(self) -> None:
        """A call that ended elsewhere, or a lost wake-up, may have made room."""
        for limit, waiting in self._waiting.items():
            self._wake_first(waiting, limit.most - self._running[limit])

    def _ended(self, limits: Collection[ConcurrencyLimit]) -> None:
        self._running.subtract(limits)
        for limit in limits:
            self._wake_first(self._waiting[limit], 1)
        if any(limit.across_processes for limit in limits):
            self._announce()

    def _wait(self, call: Wakeup, limit: ConcurrencyLimit) -> None:
        if len(self._waiting[limit]) < MAX_WAITING:
            self._waiting[limit][call.key] = call

    def _wake_first(self, waiting: OrderedDict[UUID | str, Wakeup], most: int) -> None:
        first = [waiting.popitem(last=False)[1] for _ in range(min(most, len(waiting)))]
        if first:
            self._wake(first)


MAX_KNOWN = 1_000


class FullLimits:
    """Known full limits are added up before the claim, which adds up under its locks in any case."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, str], Decimal] = {}
        """The smallest refused amount: smaller ones may find room."""

    def may_have_room(self, uses: Iterable[Use]) -> bool:
        """Uncountable amounts never have room."""
        return all(
            use.amount is not None and ((least := self._refused.get(use.key)) is None or use.amount < least)
            for use in uses
        )

    def update(self, states: Iterable[LimitState]) -> None:
        for state in states:
            if state.verdict != "run":
                self.add([state.use])
            elif self._refused and not self.may_have_room([state.use]):
                del self._refused[state.use.key]

    def add(self, uses: Iterable[Use]) -> None:
        if len(self._refused) >= MAX_KNOWN:
            self._refused.clear()
        for use in uses:
            if use.amount is not None:
                self._refused[use.key] = min(use.amount, self._refused.get(use.key, use.amount))

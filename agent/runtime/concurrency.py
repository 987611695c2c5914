"""How many calls of a tool, and of an agent, run at the same time in this process."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from uuid import UUID

from agent.database.wakeups import Wakeup
from signoff.errors import SignoffError


class NoRoom(SignoffError):
    """As many calls run as their tool or agent allows; this one is woken when one of them has ended."""


class Concurrency:
    """Counts what runs, by what bounds it."""

    def __init__(self, wake: Callable[[Sequence[Wakeup]], object]) -> None:
        self._wake = wake
        self._running: Counter[str] = Counter()
        self._waiting: defaultdict[str, OrderedDict[UUID | str, Wakeup]] = defaultdict(OrderedDict)

    @contextmanager
    def running(self, call: Wakeup, limits: Mapping[str, int | None]) -> Iterator[None]:
        """The call runs until the block ends. ``limits`` say of each thing that may bound it how many it allows.

        Raises NoRoom.
        """
        bounds = {name: most for name, most in limits.items() if most is not None}
        for name, most in bounds.items():
            if self._running[name] >= most:
                self._waiting[name][call.key] = call
                raise NoRoom(f"{most} of {name} run already")
        for name in bounds:
            self._waiting[name].pop(call.key, None)
        self._running.update(bounds.keys())
        try:
            yield
        finally:
            self._running.subtract(bounds.keys())
            for name in bounds:
                if self._waiting[name]:
                    self._wake([self._waiting[name].popitem(last=False)[1]])

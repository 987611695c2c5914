"""Threads shared fairly: one sender's large texts delay nobody else's."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")

THREADS = 3

CARDS = "cards"
"""Work for channels: each sends one message at a time, so it needs no share."""


@dataclass(slots=True)
class _Lane:
    """``used``: thread time in seconds, comparable between lanes."""

    waiting: deque[tuple[Future[Any], Callable[[], Any]]] = field(default_factory=deque)
    used: float = 0.0


class FairThreads:
    """Three threads: people (``sender`` None) find any free, cards have one, others share one, fewest seconds first."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix=name)
        self._lock = Lock()
        self._people = _Lane()
        self._cards = _Lane()
        self._senders: dict[str, _Lane] = {}
        self._card_runs = self._sender_runs = False
        self._least = 0.0  # when the last sender was served

    def submit(self, work: Callable[[], T], sender: str | None) -> Future[T]:
        """Cancelling the future drops work that has not begun."""
        future: Future[T] = Future()
        with self._lock:
            lane = self._lane(sender)
            if not lane.waiting:
                lane.used = max(lane.used, self._least)  # idle time saves up nothing
            lane.waiting.append((future, work))
        self._pool.submit(self._step)
        return future

    def _step(self) -> None:
        with self._lock:
            lane = self._next()
            if lane is None:
                return
            future, work = lane.waiting.popleft()
            self._mark(lane, runs=True)
            self._pool.submit(self._step)  # the other thread may have work
        began = time.monotonic()
        try:
            if future.set_running_or_notify_cancel():
                _run(future, work)
        finally:
            with self._lock:
                lane.used += time.monotonic() - began
                self._mark(lane, runs=False)
            self._pool.submit(self._step)

    def _lane(self, sender: str | None) -> _Lane:
        if sender is None:
            return self._people
        return self._cards if sender == CARDS else self._senders.setdefault(sender, _Lane())

    def _mark(self, lane: _Lane, *, runs: bool) -> None:
        if lane is self._cards:
            self._card_runs = runs
        elif lane is not self._people:
            self._sender_runs, self._least = runs, max(self._least, lane.used if runs else 0.0)

    def _next(self) -> _Lane | None:
        if self._people.waiting:
            return self._people
        if self._cards.waiting and not self._card_runs:
            return self._cards
        waiting = [lane for lane in self._senders.values() if lane.waiting]
        if self._sender_runs or not waiting:
            return None
        return min(waiting, key=lambda lane: lane.used)


def _run(future: Future[T], work: Callable[[], T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)

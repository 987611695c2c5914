"""Report event loops that some code blocks."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field

import structlog

PATIENCE = 1.0
"""Seconds without an answer."""

FRAMES = 20
"""Of the blocked thread, innermost first."""

log = structlog.get_logger(__name__)


@dataclass(eq=False)
class _WatchedLoop:
    loop: asyncio.AbstractEventLoop
    thread: threading.Thread
    name: str | None
    lock: threading.Lock = field(default_factory=threading.Lock)
    asked_at: float | None = None
    running: str | None = None

    def look(self, patience: float) -> None:
        with self.lock:
            if self.asked_at is None:
                self.asked_at = time.monotonic()
                with contextlib.suppress(RuntimeError):  # closed since
                    self.loop.call_soon_threadsafe(self._answer)
            elif self.running is None and time.monotonic() - self.asked_at >= patience:
                self.running = self.name or self._task_name()
                self._report(self.asked_at)

    def _answer(self) -> None:
        with self.lock:
            asked_at, running = self.asked_at, self.running
            self.asked_at = self.running = None
        if running is not None and asked_at is not None:
            log.warning(
                "the event loop answers again",
                action="loop.unblocked",
                running=running,
                seconds=round(time.monotonic() - asked_at, 2),
            )

    def _report(self, asked_at: float) -> None:
        frame = sys._current_frames().get(self.thread.ident or 0)  # noqa: SLF001 - the documented way to it
        log.warning(
            "an event loop is blocked",
            action="loop.blocked",
            running=self.running,
            seconds=round(time.monotonic() - asked_at, 2),
            stack="".join(traceback.format_stack(frame)[-FRAMES:]) if frame else None,
        )

    def _task_name(self) -> str:
        task = asyncio.current_task(self.loop)
        return task.get_name() if task else "a callback"


class Watchdog:
    """One thread asks every watched loop, four times in `patience` seconds."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._watched: list[_WatchedLoop] = []
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(
        self, loop: asyncio.AbstractEventLoop, thread: threading.Thread, name: str | None = None
    ) -> None:
        """Without a name, reports name the blocking task."""
        self._watched.append(_WatchedLoop(loop, thread, name))
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="watchdog", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _look(self) -> None:
        while not self._stopped.wait(self._patience / 4):
            for watched in list(self._watched):
                if watched.loop.is_closed():
                    self._watched.remove(watched)
                else:
                    watched.look(self._patience)

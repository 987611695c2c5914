"""A user's function in another thread, seen from the service's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any


class UserCall:
    """`ended` belongs to the caller's loop; cancelled: it ended with CancelledError."""

    def __init__(self, user_loop: asyncio.AbstractEventLoop) -> None:
        self._service = asyncio.get_running_loop()
        self._user_loop = user_loop
        self.ended: asyncio.Future[Any] = self._service.create_future()
        self._task: asyncio.Task[Any] | None = None
        self._lock = threading.Lock()
        self._begun_at: float | None = None
        self._withdrawn = False

    @property
    def seconds(self) -> float:
        return 0.0 if self._begun_at is None else time.monotonic() - self._begun_at

    async def wait(self, seconds: float) -> None:
        """Wait up to ``seconds`` from its beginning; withdraw it if it has not begun."""
        await asyncio.wait({self.ended}, timeout=seconds)
        if not self.ended.done() and not self.withdraw():
            await asyncio.wait({self.ended}, timeout=max(0.0, seconds - self.seconds))

    def withdraw(self) -> bool:
        """False: it has begun."""
        with self._lock:
            self._withdrawn = self._begun_at is None
            return self._withdrawn

    def interrupt(self) -> None:
        """Cancel an async function; a thread goes on."""
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self._user_loop.call_soon_threadsafe(self._cancel)

    def abandon(self) -> bool:
        """Withdraw or interrupt it, and stop waiting. True: it never began."""
        self.ended.cancel()
        withdrawn = self.withdraw()
        if not withdrawn:
            self.interrupt()
        return withdrawn

    def begin(self) -> bool:
        """Called by the thread that runs the function. False: withdrawn."""
        with self._lock:
            if self._begun_at is None and not self._withdrawn:
                self._begun_at = time.monotonic()
            return not self._withdrawn

    def follow(self, task: asyncio.Task[Any]) -> None:
        """Call in the user loop."""
        self._task = task
        task.add_done_callback(self._task_done)

    def settle(self, value: Any, error: BaseException | None) -> None:
        """Call from any thread."""
        with contextlib.suppress(RuntimeError):  # nobody waits: the service's loop is closed
            self._service.call_soon_threadsafe(self._set, value, error)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            self.settle(None, asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self.settle(None, error)
        else:
            self.settle(task.result(), None)

    def _set(self, value: Any, error: BaseException | None) -> None:
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(value)
        elif isinstance(error, asyncio.CancelledError):
            self.ended.cancel()
        else:
            self.ended.set_exception(contained(error))


def contained(error: BaseException) -> Exception:
    """Make the error fit a future and end only one call."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")

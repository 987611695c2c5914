"""Run users' code (tools, facts, hooks, function agents) off the service's event loop.

Async functions share one event loop for the life of the process, so a client bound to a loop works in every tool;
sync functions run in a bounded pool. Blocking code can delay other user code, but no click, heartbeat or sweep.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import structlog

from agent.runtime import branches
from agent.runtime.watchdog import Watchdog

THREADS = 64
"""Concurrent sync functions."""

STOP_SECONDS = 2.0
"""Seconds for cancelled functions to clean up at shutdown."""

BLOCKED = "it could not begin in time, because other tools block the event loop or hold every thread"

Check = Callable[[], None]
"""Called just before the function begins; raises to end the call."""

_running: contextvars.ContextVar[str] = contextvars.ContextVar("signoff_user_code")

log = structlog.get_logger(__name__)


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


class UserCode:
    """The event loop and threads in which a process runs tools, facts, hooks and function agents."""

    def __init__(self, watchdog: Watchdog | None = None, *, threads: int = THREADS) -> None:
        self.watchdog = watchdog or Watchdog()
        self._threads = _Threads(threads)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopping = False

    async def call(
        self, function: Callable[..., Any], arguments: Mapping[str, Any], *, name: str, within: float
    ) -> Any:
        """Pass the arguments that the function takes. Raises TimeoutError after `within` seconds."""
        call = self.start(function, arguments, name=name)
        try:
            await asyncio.wait({call.ended}, timeout=within)
            if not call.ended.done():
                raise TimeoutError(BLOCKED if call.withdraw() else f"it did not end within {within:g} s")
        finally:
            if not call.ended.done():
                call.abandon()
        if call.ended.cancelled():
            raise RuntimeError("its own code cancelled it")
        return call.ended.result()

    def start(
        self,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        *,
        name: str,
        check: Check | None = None,
    ) -> UserCall:
        """Begin a call in the caller's context (tracing, logging). `name`: for logs."""
        loop = self._running_loop()
        taken = inspect.signature(function).parameters
        chosen = {key: value for key, value in arguments.items() if key in taken}
        call = UserCall(loop)
        run = partial(_run, check, partial(function, **chosen))
        context = contextvars.copy_context()
        context.run(_running.set, name)
        if inspect.iscoroutinefunction(function):
            loop.call_soon_threadsafe(_begin_task, call, run, context)
        else:
            self._threads.submit(partial(_run_in_thread, call, run, context, loop))
        return call

    async def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Code that blocks longer is left behind."""
        self.watchdog.stop()
        self._threads.stop()
        if self._loop is not None and self._thread is not None:
            self._stopping = True
            with contextlib.suppress(RuntimeError):  # already closed
                self._loop.call_soon_threadsafe(self._loop.stop)
            await asyncio.to_thread(self._thread.join, seconds)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            # The service's may be uvloop's.
            runner = asyncio.Runner(loop_factory=type(asyncio.get_running_loop()))
            self._loop = runner.get_loop()
            self._loop.set_task_factory(_named_task)
            # Daemons: a hanging one must not keep the process from ending.
            self._thread = threading.Thread(
                target=self._serve, args=(runner, self._loop), name="user loop", daemon=True
            )
            self._thread.start()
            self.watchdog.watch(self._loop, self._thread)
        return self._loop

    def _serve(self, runner: asyncio.Runner, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stopping:
            try:
                loop.run_forever()
            except BaseException as error:  # SystemExit ends only its task
                log.warning(
                    "a task of user code tried to end the process",
                    action="user_code.exit",
                    error=f"{type(error).__name__}: {error}",
                )
        runner.close()  # cancels what still runs


class _Threads:
    """Daemon threads for sync functions; more start while all are busy, up to a limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)

    def submit(self, work: Callable[[], None]) -> None:
        """Call from one thread only."""
        self._waiting.put(work)
        if not self._idle.acquire(blocking=False) and self._count < self._most:
            self._count += 1
            threading.Thread(target=self._serve, name=f"user thread {self._count}", daemon=True).start()

    def stop(self) -> None:
        """Running threads end after their current work."""
        for _ in range(self._count):
            self._waiting.put(None)

    def _serve(self) -> None:
        while (work := self._waiting.get()) is not None:
            work()
            self._idle.release()


def _begin_task(call: UserCall, run: Callable[[], Awaitable[Any]], context: contextvars.Context) -> None:
    if call.begin():
        call.follow(asyncio.get_running_loop().create_task(_finish(run), context=context))


def _named_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """Name tasks after the running code for the watchdog. A function agent's tasks are its branches."""
    context: contextvars.Context = options.get("context") or contextvars.copy_context()
    forked = branches.fork(context)
    if forked is not None:
        options["context"] = forked[1]
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    if forked is not None:
        forked[0].add(task)
    if name := context.get(_running):
        task.set_name(name)
    return task


def _run_in_thread(
    call: UserCall,
    run: Callable[[], Any],
    context: contextvars.Context,
    loop: asyncio.AbstractEventLoop,
) -> None:
    if not call.begin():
        return
    try:
        value = context.run(run)
    except BaseException as error:  # passed on to the service
        call.settle(None, error)
        return
    if inspect.isawaitable(value):  # a coroutine runs in the loop
        loop.call_soon_threadsafe(_begin_task, call, lambda: value, context)
    else:
        call.settle(value, None)


def _run(check: Check | None, function: Callable[[], Any]) -> Any:
    if check is not None:
        check()
    return function()


async def _finish(run: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await run()
    except (SystemExit, KeyboardInterrupt) as error:  # would end the loop
        raise contained(error) from error

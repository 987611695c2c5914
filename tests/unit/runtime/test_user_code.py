"""User code runs off the service's event loop: what comes back, and what cannot come in the way."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
import traceback
from collections.abc import AsyncIterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from agent.runtime.user_code import BLOCKED, UserCode

LONG = 10.0
asked_by: contextvars.ContextVar[str] = contextvars.ContextVar("asked_by")


@pytest.fixture
async def code() -> AsyncIterator[UserCode]:
    made = UserCode(threads=2)
    yield made
    await made.stop()


async def call(code: UserCode, function: Any, within: float = LONG, **arguments: Any) -> Any:
    return await code.call(function, arguments, name="tool test", within=within)


async def loop_of_user() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


async def test_async_functions_share_one_loop_that_is_not_ours(code: UserCode) -> None:
    """A client that binds itself to the loop of its first use works in all of them."""
    first, second = await call(code, loop_of_user), await call(code, loop_of_user)
    ours = asyncio.get_running_loop()
    assert first is second
    assert first is not ours
    assert type(first) is type(ours)


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_the_context_passes_over(code: UserCode, kind: str) -> None:
    """Context variables (tracing, logging) are those of the caller."""

    async def read() -> str:
        return asked_by.get()

    def read_in_thread() -> str:
        return asked_by.get()

    token = asked_by.set("ada")
    try:
        assert await call(code, read if kind == "async" else read_in_thread) == "ada"
    finally:
        asked_by.reset(token)


async def test_a_function_gets_the_arguments_that_it_has_parameters_for(code: UserCode) -> None:
    """Facts and hooks take some of a tool's arguments by name."""
    assert await call(code, lambda order: order, order=7, amount=3) == 7


async def test_a_coroutine_made_by_a_plain_function_runs_in_the_loop_of_user_code(code: UserCode) -> None:
    """What a sync function returns is awaited where all async functions run."""
    assert await call(code, partial(lambda make: make(), loop_of_user)) is await call(code, loop_of_user)


async def test_an_error_keeps_its_traceback(code: UserCode) -> None:
    """The line of the user's own function is in the traceback that the service sees."""

    async def explode() -> None:
        raise ValueError("no such order")

    with pytest.raises(ValueError, match="no such order") as caught:
        await call(code, explode)
    assert "explode" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


@pytest.mark.parametrize("raised", [StopIteration(7), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_what_a_future_cannot_hold_ends_the_call_alone(
    code: UserCode, kind: str, raised: BaseException
) -> None:
    """`next()` on nothing, or an attempt to end the process, is an error of this one call."""

    def plain() -> None:
        raise raised

    async def coroutine() -> None:
        raise raised

    with pytest.raises(RuntimeError):
        await call(code, coroutine if kind == "async" else plain)
    assert await call(code, loop_of_user) is not None


async def test_a_task_that_ends_the_process_does_not_end_the_loop(code: UserCode) -> None:
    """SystemExit in a task of the user's own ends that task; the loop of all user code continues."""

    async def leave() -> None:
        raise SystemExit(3)

    async def parent() -> Any:
        return asyncio.get_running_loop(), asyncio.create_task(leave())

    before, task = await call(code, parent)
    assert await call(code, loop_of_user) is before
    assert isinstance(task.exception(), SystemExit)


async def test_a_function_that_cancels_itself_does_not_cancel_the_caller(code: UserCode) -> None:
    """CancelledError from within is an error of the call, not the end of the service's own task."""

    async def give_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(LONG)

    with pytest.raises(RuntimeError, match="its own code cancelled it"):
        await call(code, give_up)


async def test_a_task_that_outlives_its_function_goes_on(code: UserCode) -> None:
    """Tasks that a function leaves running continue beside later calls, until the process stops and cancels them."""
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def leave_behind() -> asyncio.Task[None]:
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        return task

    task = await call(code, leave_behind)
    await call(code, loop_of_user)
    assert not task.done()
    await code.stop()
    assert ended == ["cancelled"]


async def test_an_overdue_function_is_cancelled(code: UserCode) -> None:
    """The caller continues at once, also where the function is slow to clean up."""
    cancelled, release = threading.Event(), threading.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
            await asyncio.to_thread(release.wait, LONG)

    with pytest.raises(TimeoutError, match=r"within 0\.01 s"):
        await call(code, slow, within=0.01)
    assert await asyncio.to_thread(cancelled.wait, LONG)
    release.set()


async def test_what_could_not_begin_in_time_never_begins(code: UserCode) -> None:
    """Behind a function that blocks the loop, another one times out without having begun, and the error says so."""
    begun, release = threading.Event(), threading.Event()
    ran: list[str] = []

    async def block() -> None:
        begun.set()
        release.wait(LONG)

    async def late() -> None:
        ran.append("late")

    blocking = asyncio.create_task(call(code, block))
    assert await asyncio.to_thread(begun.wait, LONG)
    with pytest.raises(TimeoutError, match=BLOCKED):
        await call(code, late, within=0.01)
    unbegun = code.start(late, {}, name="tool late")
    await unbegun.wait(0.01)
    assert await call(code, lambda: "in a thread") == "in a thread"
    release.set()
    await blocking
    await call(code, loop_of_user)
    assert unbegun.withdraw()
    assert ran == []


async def test_what_began_late_has_its_whole_time(code: UserCode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seconds that a function may take count from its beginning."""
    release = threading.Event()

    def run() -> str:
        release.wait(LONG)
        return "done"

    now = time.monotonic()
    with monkeypatch.context() as clock:
        clock.setattr("agent.runtime.user_code.time", SimpleNamespace(monotonic=lambda: now + LONG))
        late = code.start(run, {}, name="tool test", check=(begun := threading.Event()).set)
        assert await asyncio.to_thread(begun.wait, LONG)
    waiting = asyncio.create_task(late.wait(0.01))
    await asyncio.wait({waiting}, timeout=0.05)
    release.set()
    await waiting
    assert late.ended.result() == "done"


async def test_threads_are_bounded(code: UserCode) -> None:
    """While every thread is taken the next function waits for one, and does not begin once nobody waits."""
    begun, release = threading.Semaphore(0), threading.Event()
    ran: list[str] = []

    def hold() -> None:
        begun.release()
        release.wait(LONG)

    holding = [asyncio.create_task(call(code, hold)) for _ in range(2)]
    for _ in holding:
        assert await asyncio.to_thread(begun.acquire, timeout=LONG)
    with pytest.raises(TimeoutError, match=BLOCKED):
        await call(code, lambda: ran.append("too late"), within=0.01)
    waiting = asyncio.create_task(call(code, lambda: ran.append("in time")))
    release.set()
    await asyncio.gather(*holding, waiting)
    assert ran == ["in time"]


async def test_stopping_does_not_wait_for_what_blocks(code: UserCode) -> None:
    """A function that blocks the loop for good keeps no process from ending."""
    begun, release = threading.Event(), threading.Event()

    async def block() -> None:
        begun.set()
        release.wait(LONG)

    blocking = asyncio.create_task(call(code, block))
    assert await asyncio.to_thread(begun.wait, LONG)
    await code.stop(seconds=0.01)
    assert not blocking.done()
    release.set()
    await blocking

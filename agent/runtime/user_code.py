"""Calling what users wrote: async functions on the event loop, sync ones in a thread of their own.

A thread cannot be stopped. A pool would lose one of its threads to every function that hangs, and would keep
the process from ending; so each call gets a daemon thread, and whoever waits may stop waiting.
"""

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Callable, Mapping
from typing import Any

from agent.runtime.signature import CONTEXT


async def call(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """The function's result, with those of the arguments that it has parameters for."""
    taken = inspect.signature(function).parameters
    chosen = {name: value for name, value in arguments.items() if name in taken}
    if inspect.iscoroutinefunction(function):
        return await function(**chosen)
    return await _in_thread(lambda: function(**chosen))


def with_context(arguments: Mapping[str, Any], context: object) -> dict[str, Any]:
    """The arguments of a tool, and the context for those that want it."""
    return {**arguments, CONTEXT: context}


async def _in_thread(function: Callable[[], Any]) -> Any:
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            value, error = context.run(function), None
        except BaseException as raised:  # carried over to whoever waits
            value, error = None, raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, result, value, error)

    threading.Thread(target=work, name=f"tool {function}", daemon=True).start()
    value = await result
    return await value if inspect.isawaitable(value) else value


def _settle(result: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if result.done():
        return
    if isinstance(error, Exception):
        result.set_exception(error)
    elif error is not None:  # SystemExit and the like end one call, not the service
        result.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
    else:
        result.set_result(value)

"""A function agent's tasks. A task's place is the same in every replay, however tasks interleave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any

PASSES = 100
"""Event loop rounds without progress, after which all tasks count as waiting."""

POLL_SECONDS = 0.05
"""Seconds between checks of waits for something outside."""

_OUTSIDE = frozenset({asyncio.sleep.__code__, asyncio.to_thread.__code__})
"""These end by themselves; others may depend on a waiting task."""

branch: ContextVar[Branch] = ContextVar("signoff_branch")


@dataclass(eq=False)
class Branch:
    """A task. Its path: the creating task and its number there; empty for the function."""

    tasks: list[asyncio.Task[Any]]
    """The function's, itself first."""
    moved: asyncio.Event
    path: tuple[int, ...] = ()
    _made: int = field(default=0, init=False)
    _begun: int = field(default=0, init=False)

    def next_place(self) -> str:
        self._begun += 1
        return "/".join(map(str, (*self.path, self._begun)))

    def fork(self) -> Branch:
        self._made += 1
        return Branch(self.tasks, self.moved, (*self.path, self._made))

    def add(self, task: asyncio.Task[Any]) -> None:
        self.tasks.append(task)
        task.add_done_callback(lambda _: self.moved.set())

    def start(self, function: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        context, outer = copy_context(), asyncio.current_task()
        context.run(branch.set, self)
        name = outer.get_name() if outer else None
        task = asyncio.Task(function, loop=asyncio.get_running_loop(), name=name, context=context)
        self.add(task)
        return task

    def cancel(self) -> None:
        for task in self.tasks:
            if not task.done():
                task.cancel()
                task.add_done_callback(_retrieve)


def _retrieve(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def fork(context: Context) -> tuple[Branch, Context] | None:
    """A created task's branch and context. None: not of a function agent."""
    above = context.get(branch)
    if above is None:
        return None
    below, own = above.fork(), context.copy()
    own.run(branch.set, below)
    return below, own


async def settle(root: Branch, waiting: Callable[[], int]) -> None:
    """Return when the function has ended, or needs more records. `waiting`: the number of waiting tasks."""
    passes = 0
    while passes < PASSES and not root.tasks[0].done():
        at_work = [task for task in root.tasks if not task.done()]
        blocked = waiting()
        if blocked == len(at_work):
            return
        if blocked and not any(map(_is_outside, at_work)):
            passes = 0 if root.moved.is_set() else passes + 1
            root.moved.clear()
            await asyncio.sleep(0)
        else:
            passes = 0
            await _wait_for_change(root.moved)


async def _wait_for_change(moved: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(POLL_SECONDS):
            await moved.wait()
    moved.clear()


def _is_outside(task: asyncio.Task[Any]) -> bool:
    code: object = None
    awaited: Any = task.get_coro()
    while awaited is not None:
        code = getattr(awaited, "cr_code", code)
        awaited = getattr(awaited, "cr_await", None)
    return code in _OUTSIDE

"""The tasks of a function agent. Each has a place, the same at every replay, however the tasks interleave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any

PASSES = 100
"""How often the event loop goes round without any task of the function moving before all are taken to wait."""

LOOK_AGAIN = 0.05
"""Seconds after which tasks that wait for something outside are looked at again, unless they say something before."""

_OUTSIDE = frozenset({asyncio.sleep.__code__, asyncio.to_thread.__code__})
"""What ends by itself. A task in one of these is waited for; everything else may depend on a task that waits."""

branch: ContextVar[Branch] = ContextVar("signoff_branch")


@dataclass(eq=False)
class Branch:
    """A task: its path says which task made it, as its how-manieth. The function itself has the empty path."""

    tasks: list[asyncio.Task[Any]]
    """Of the whole function, itself first."""
    moved: asyncio.Event
    """Set whenever one of them has begun something or ended."""
    path: tuple[int, ...] = ()
    _made: int = field(default=0, init=False)
    _begun: int = field(default=0, init=False)

    def next_place(self) -> str:
        """The place of what this task begins now: its path, and the number of the step or question within it."""
        self._begun += 1
        return "/".join(map(str, (*self.path, self._begun)))

    def fork(self) -> Branch:
        """The branch of a task that this one makes."""
        self._made += 1
        return Branch(self.tasks, self.moved, (*self.path, self._made))

    def add(self, task: asyncio.Task[Any]) -> None:
        self.tasks.append(task)
        task.add_done_callback(lambda _: self.moved.set())

    def start(self, function: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run the function itself."""
        context, outer = copy_context(), asyncio.current_task()
        context.run(branch.set, self)
        name = outer.get_name() if outer else None
        task = asyncio.Task(function, loop=asyncio.get_running_loop(), name=name, context=context)
        self.add(task)
        return task

    def cancel(self) -> None:
        """End the tasks that have not ended; what they raise in the end is nobody's business."""
        for task in self.tasks:
            if not task.done():
                task.cancel()
                task.add_done_callback(_retrieve)


def _retrieve(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def fork(context: Context) -> tuple[Branch, Context] | None:
    """The branch of a task that is made in this context, and its own context. None: it is not of a function agent."""
    above = context.get(branch)
    if above is None:
        return None
    below, own = above.fork(), context.copy()
    own.run(branch.set, below)
    return below, own


async def settle(root: Branch, waiting: Callable[[], int]) -> None:
    """Return when the function has ended, or when nothing of it goes on before the record says more.

    `waiting`: how many of its tasks wait for the record.
    """
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
            await _movement(root.moved)


async def _movement(moved: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(LOOK_AGAIN):
            await moved.wait()
    moved.clear()


def _is_outside(task: asyncio.Task[Any]) -> bool:
    code: object = None
    awaited: Any = task.get_coro()
    while awaited is not None:
        code = getattr(awaited, "cr_code", code)
        awaited = getattr(awaited, "cr_await", None)
    return code in _OUTSIDE

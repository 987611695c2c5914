"""Tasks that nobody awaits: kept until they end, and a failure is logged when it happens."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

import structlog

from signoff.errors import SignoffError

T = TypeVar("T")

log = structlog.get_logger(__name__)

_tasks: set[asyncio.Task[Any]] = set()
"""The event loop keeps weak references."""


def start_task(work: Coroutine[Any, Any, T], name: str, context: Context | None = None) -> asyncio.Task[T]:
    """Begin ``work``. ``name`` is for the log: a part of the process, then perhaps ``:`` and an id."""
    task = asyncio.get_running_loop().create_task(work, name=name, context=context)
    _tasks.add(task)
    task.add_done_callback(_ended)
    return task


def _ended(task: asyncio.Task[Any]) -> None:
    _tasks.discard(task)
    if task.cancelled() or (error := task.exception()) is None:
        return
    part = task.get_name().partition(":")[0]
    if isinstance(error, SignoffError):  # each is one line, whatever else failed for the same cause
        log.warning(
            "a task failed in the background", action="background.failed", task=part, error=str(error)
        )
    else:
        log.error("a task failed in the background", action="background.failed", task=part, exc_info=error)

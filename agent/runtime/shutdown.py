"""Tasks end within a time when a process stops."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import structlog

CANCEL_SECONDS = 5.0
"""Seconds that a cancelled task has to store what it did."""

log = structlog.get_logger(__name__)


async def end_tasks(tasks: Iterable[asyncio.Task[None]], seconds: float) -> None:
    """Cancel the tasks after this time, even if the database keeps them from writing."""
    under_way = set(tasks)
    for patience in (seconds, CANCEL_SECONDS, CANCEL_SECONDS):
        if not under_way:
            return
        ended, under_way = await asyncio.wait(under_way, timeout=patience)
        await asyncio.gather(*ended, return_exceptions=True)
        for task in under_way:
            task.cancel()
    if under_way:
        log.error(
            "tasks still running at exit",
            action="service.left",
            tasks=sorted(task.get_name() for task in under_way),
        )

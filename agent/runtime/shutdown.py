"""Ending what is under way when a service stops."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


async def end_tasks(tasks: Iterable[asyncio.Task[None]], seconds: float) -> None:
    """Let these end within so many seconds; what takes longer is cut off. What they raise is theirs to tell."""
    under_way = list(tasks)
    if not under_way:
        return
    _, late = await asyncio.wait(under_way, timeout=seconds)
    for task in late:
        task.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)

"""Repeat a write that must be stored, while the database is unavailable."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from agent.database.errors import DatabaseError

LONGEST = 3.0
"""Seconds between attempts."""

log = structlog.get_logger(__name__)

T = TypeVar("T")


async def until_answered(ask: Callable[[], Awaitable[T]], action: str) -> T:
    """``ask`` must be safe to repeat; ``action`` names failures in the log."""
    wait = 0.2
    while True:
        try:
            return await ask()
        except DatabaseError as error:
            log.warning("the database does not answer", action=action, error=str(error))
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST)

"""Repeat a write that must be stored, while the database is unavailable."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agent.database.errors import DatabaseError
from agent.database.failure_log import log_failure

LONGEST = 3.0
"""Seconds between attempts."""

T = TypeVar("T")


async def until_answered(ask: Callable[[], Awaitable[T]], action: str) -> T:
    """``ask`` must be safe to repeat; ``action`` names failures in the log."""
    wait = 0.2
    while True:
        try:
            return await ask()
        except DatabaseError as error:
            log_failure("the database does not answer", error, action=action)
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST)

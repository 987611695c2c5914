"""Repeat a write that must be stored, while the database is unavailable."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agent.database.errors import DatabaseError
from agent.database.failure_log import log_failure
from signoff.backoff import Backoff

PAUSES = Backoff(first=0.2, longest=3.0)

T = TypeVar("T")


async def until_answered(ask: Callable[[], Awaitable[T]], action: str) -> T:
    """``ask`` must be safe to repeat; ``action`` names failures in the log."""
    failures = 0
    while True:
        try:
            return await ask()
        except DatabaseError as error:
            log_failure("the database does not answer", error, action=action)
            failures += 1
            await asyncio.sleep(PAUSES.after(failures))

"""Tasks that nobody awaits: their failures are logged when they happen, and read."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from structlog.testing import capture_logs

from agent.database.background import start_task
from agent.database.errors import DatabaseUnavailable


async def _fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "level"),
    [(DatabaseUnavailable("lost the database: nothing was written"), "warning"), (KeyError("x"), "error")],
    ids=["database", "other"],
)
async def test_a_failure_is_logged_at_once_and_read(error: Exception, level: str) -> None:
    """One line with the part that failed; that of our own code comes with its traceback; asyncio reports nothing."""
    unread: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unread.append(context))
    with capture_logs() as logs:
        task = start_task(_fail(error), "at work:7")
        await asyncio.wait({task})
        await asyncio.sleep(0)
    [line] = logs
    assert (line["action"], line["task"], line["log_level"]) == ("background.failed", "at work", level)
    assert (line.get("exc_info") is error) is (level == "error")
    del task, line, logs
    gc.collect()
    assert unread == []


async def test_a_cancelled_task_is_no_failure() -> None:
    """What is stopped on purpose leaves no line."""
    with capture_logs() as logs:
        task = start_task(asyncio.sleep(60), "waiting")
        task.cancel()
        await asyncio.wait({task})
    assert logs == []

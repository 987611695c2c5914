"""The watchdog says which loop is blocked, by what and for how long."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from structlog.testing import capture_logs

from agent.runtime.user_code import UserCode
from agent.runtime.watchdog import Watchdog

Logs = list[Any]


def said(logs: Logs, action: str) -> list[Any]:
    return [entry for entry in logs if entry["action"] == action]


def block_until_noticed(logs: Logs, pause: threading.Event) -> None:
    """Keep the thread from everything else until the watchdog has said so."""
    for _ in range(1000):
        if said(logs, "loop.blocked") or pause.wait(0.01):
            return


async def until_over(logs: Logs) -> None:
    async with asyncio.timeout(10):
        while not said(logs, "loop.unblocked"):  # noqa: ASYNC110 - logs offer nothing to wait on
            await asyncio.sleep(0.01)


async def test_a_tool_that_blocks_the_loop_of_user_code_is_named() -> None:
    """One line when it is noticed, with the tool and the stack, and one when it is over, with the total."""
    code = UserCode(Watchdog(patience=0.04))

    async def pay() -> None:
        await asyncio.gather(asyncio.create_task(in_a_task_of_its_own()))

    async def in_a_task_of_its_own() -> None:
        block_until_noticed(logs, threading.Event())

    with capture_logs() as logs:
        await code.call(pay, {}, name="tool pay", within=10)
        await until_over(logs)
    [blocked], [over] = said(logs, "loop.blocked"), said(logs, "loop.unblocked")
    assert blocked["running"] == over["running"] == "tool pay"
    assert "block_until_noticed" in blocked["stack"]
    assert 0.04 <= blocked["seconds"] <= over["seconds"]
    await code.stop()


async def test_the_service_is_watched_as_well() -> None:
    """Whatever blocks the service's own loop is said to be of the service."""
    watchdog = Watchdog(patience=0.04)
    watchdog.watch(asyncio.get_running_loop(), threading.current_thread(), "service")
    with capture_logs() as logs:
        block_until_noticed(logs, threading.Event())
        await until_over(logs)
    watchdog.stop()
    [blocked] = said(logs, "loop.blocked")
    assert blocked["running"] == "service"
    assert "test_the_service_is_watched_as_well" in blocked["stack"]


async def test_a_loop_that_answers_is_not_mentioned() -> None:
    """A loop at work, and one that was closed, are no blockage."""
    code = UserCode(Watchdog(patience=0.2))

    async def work() -> None:
        for _ in range(60):  # longer than the patience, in steps far below it
            await asyncio.sleep(0.005)

    other = asyncio.new_event_loop()
    with capture_logs() as logs:
        code.watchdog.watch(other, threading.current_thread(), "closed")
        other.close()
        await code.call(work, {}, name="tool work", within=10)
        await code.stop()
    assert said(logs, "loop.blocked") == []

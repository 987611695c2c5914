"""The service is told to stop at a moment that suits nobody."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from procrastinate.manager import JobManager

from agent.runtime.agents import Agent
from tests.integration.service.conftest import a_house


async def test_a_service_that_has_just_started_stops(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancellation that is lost in the database's driver, while a worker begins, holds the end up for no second."""
    register, begun = JobManager.register_worker, asyncio.Event()

    async def loses_a_cancellation(manager: JobManager) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return await register(manager)

    monkeypatch.setattr(JobManager, "register_worker", loses_a_cancellation)
    async with a_house(database_url, "http") as house:
        service = await house.open([Agent("data", "You manage data.")])
        await begun.wait()
        async with asyncio.timeout(10):
            await service.stop()
        house.stack.pop_all()

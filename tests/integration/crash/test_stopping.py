"""The service is stopped at an inconvenient moment."""

from __future__ import annotations

import asyncio

import pytest

from agent.runtime.agents import Agent
from agent.store import due_work
from tests.integration.service.conftest import a_house


async def test_a_service_that_has_just_started_stops(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service whose first look does not come to an end stops at once."""
    begun = asyncio.Event()

    async def waits(*_: object, **__: object) -> list[object]:
        begun.set()
        return await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(due_work, "find", waits)
    async with a_house(database_url, "http") as house:
        service = await house.open([Agent("data", "You manage data.")])
        await begun.wait()
        async with asyncio.timeout(10):
            await service.stop()
        house.stack.pop_all()

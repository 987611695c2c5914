"""Several schedulers over the same due requests: each expires once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from agent.runtime.agents import Agent
from agent.usecases import requests
from tests.integration.asking import question, rule, start
from tests.integration.crash.street import until
from tests.integration.service.conftest import House, a_house

SCHEDULERS = 3


@pytest.fixture
async def house(database_url: str) -> AsyncIterator[House]:
    """Several services may be opened on one database."""
    async with a_house(database_url, "http") as opened:
        yield opened


async def test_three_schedulers_expire_each_request_once(house: House) -> None:
    """100 requests due at once: one decision and one event each, and one card update, from either scheduler."""
    await expire_all(house, 100)


async def _ask_hundred(house: House) -> None:
    run_id, calls = await start(house.db, calls=100)
    await asyncio.gather(*(requests.open(house.db, question(run_id, call, rule())) for call in calls))


async def expire_all(house: House, number: int, seconds: float = 60.0) -> None:
    """Open so many, let them all be overdue, and let three schedulers at them."""
    for _ in range(number // 100):
        await _ask_hundred(house)
    await house.make_overdue()
    for _ in range(SCHEDULERS):
        await house.open([Agent("data", "You manage data.")], SIGNOFF_ROLES="scheduler")
    waiting = "SELECT 1 FROM approval_request WHERE status = 'waiting' LIMIT 1"

    async def over() -> bool:
        return not await house.column(waiting)

    await until(over, seconds)
    assert await house.column("SELECT count(*) FROM approval_request WHERE status = 'expired'") == [number]
    assert await house.column("SELECT count(*) FROM decision") == [number]
    events = "SELECT count(*) FROM audit_event WHERE event = 'request.expired'"
    assert await house.column(events) == [number]
    lines = "SELECT count(*) FROM delivery WHERE kind = 'thread_line' AND body ->> 'line' = 'expired'"
    assert await house.column(lines) == [number]

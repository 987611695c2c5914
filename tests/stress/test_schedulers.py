"""10,000 requests due at once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.crash.test_schedulers import expire_all
from tests.integration.service.conftest import House, a_house
from tests.stress.budget import full


@pytest.fixture
async def house(database_url: str) -> AsyncIterator[House]:
    """Several services may be opened on one database."""
    async with a_house(database_url, "http") as opened:
        yield opened


@pytest.mark.stress
async def test_three_schedulers_expire_ten_thousand_within_a_minute(house: House) -> None:
    """As after an hour without any scheduler: each request expires once, all within 60 s."""
    await expire_all(house, 100 * full(100), seconds=60.0)

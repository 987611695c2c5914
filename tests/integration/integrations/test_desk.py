"""What the tests of all integrations stand on."""

from __future__ import annotations

import asyncio

import pytest

from signoff.client import AsyncApprovalClient
from tests.integration.integrations.conftest import Desk


@pytest.mark.parametrize("door", ["click", "key", "edit"])
async def test_a_program_hears_what_people_decide(desk: Desk, door: str) -> None:
    """A click in Slack, a key's word and an edit all reach the program that waits."""
    async with AsyncApprovalClient(desk.url, desk.key) as client:
        asked = {"table_name": "users", "count": 50}
        running = asyncio.create_task(client.ask("delete_records", asked))
        request = await desk.asked()
        if door == "click":
            await desk.click()
        elif door == "key":
            await desk.decide(request)
        else:
            await desk.edit(request, asked | {"count": 3})
        decision = await running
        assert (decision.edited, decision.arguments["count"]) == (
            (True, 3) if door == "edit" else (False, 50)
        )
    assert await desk.statuses() == ["approved"]

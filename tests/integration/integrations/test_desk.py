"""What the tests of all integrations stand on."""

from __future__ import annotations

import asyncio

import pytest

from signoff.client import AsyncApprovalClient
from tests.integration.integrations.conftest import Desk


@pytest.mark.parametrize("door", ["click", "key", "edit"])
async def test_a_program_hears_what_people_decide(actors: Desk, door: str) -> None:
    """A click in Slack, a key's word and an edit all reach the program that waits."""
    async with AsyncApprovalClient(actors.url, actors.key) as client:
        asked = {"table_name": "users", "count": 50}
        running = asyncio.create_task(client.ask("delete_records", asked))
        request = await actors.asked()
        if door == "click":
            await actors.click()
        elif door == "key":
            await actors.decide(request)
        else:
            await actors.edit(request, asked | {"count": 3})
        decision = await running
        assert (decision.edited, decision.arguments["count"]) == (
            (True, 3) if door == "edit" else (False, 50)
        )
    assert await actors.statuses() == ["approved"]

"""A tool that blocks delays no click, no heartbeat and no expiry of its process."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from structlog.testing import capture_logs

from agent.runtime.agents import Agent
from agent.runtime.tool import tool
from tests.integration.service.conftest import House, until

TASK = "please delete_records table_name={} count=50"


class BlockingTool:
    """An async tool that blocks its event loop, as `time.sleep` does, until the test releases it."""

    def __init__(self) -> None:
        self.begun, self.release = threading.Event(), threading.Event()
        self.deleted: list[str] = []

    def agent(self) -> Agent:
        @tool
        async def delete_records(table_name: str, count: int) -> str:
            """Delete records from a table."""
            self.begun.set()
            self.release.wait(30)
            self.deleted.append(table_name)
            return f"Deleted {count} records from {table_name}"

        return Agent("data", "You manage data.", [delete_records])


async def test_a_blocking_tool_delays_nobody(http_house: House) -> None:
    """While it blocks, another request is decided, one expires, leases are extended, and the log names the tool."""
    house, blocking = http_house, BlockingTool()
    await house.open([blocking.agent()])
    grace = house.slack.person("U0GRACE")
    for number, table in enumerate(("users", "orders", "carts")):
        await house.ask("U0ADA", TASK.format(table))
        await house.card(number)

    async def noticed() -> list[Any]:
        return [each for each in logs if each.get("action") == "loop.blocked"]

    with capture_logs() as logs:
        assert (await grace.click(await house.card(0), "signoff:approve")).error is None
        assert await asyncio.to_thread(blocking.begun.wait, 10)

        assert (await grace.click(await house.card(1), "signoff:approve")).error is None
        await house.shows("SELECT count(*) FROM execution WHERE status = 'claimed'", 2)
        await house.make_overdue()
        await house.shows(
            "SELECT status::text FROM approval_request ORDER BY id", "approved", "approved", "expired"
        )

        claimed = await house.column("SELECT min(lease_until) FROM execution")
        await until(
            lambda: house.column("SELECT 1 FROM execution HAVING min(lease_until) > :at", at=claimed[0])
        )
        [blocked] = await until(noticed)
        assert (blocked["running"], blocking.deleted) == ("tool delete_records", [])
        assert "self.release.wait" in blocked["stack"]
        blocking.release.set()
        await house.shows("SELECT status::text FROM execution", "succeeded", "succeeded")
    assert sorted(blocking.deleted) == ["orders", "users"]


async def test_code_that_blocks_the_service_is_logged(http_house: House) -> None:
    """The service's own loop is watched from its start: the test blocks it until the log reports it."""
    await http_house.open([])
    pause = threading.Event()
    with capture_logs() as logs:
        for _ in range(1000):
            if any(each.get("action") == "loop.blocked" for each in logs):
                break
            pause.wait(0.01)
    assert [each["running"] for each in logs if each.get("action") == "loop.blocked"] == ["service"]

"""How many connections to the database a process has."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import psycopg
from structlog.testing import capture_logs

from tests.integration.service.conftest import a_house, until

OPEN = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name IN ('signoff', 'signoff listens')
"""


async def test_a_process_with_all_roles_has_26_connections(
    database_url: str, owner: psycopg.Connection[Any]
) -> None:
    """With its pools used up, a process has the 26 connections that its log says, those that listen included."""
    async with a_house(database_url, "http") as house, AsyncExitStack() as held:
        with capture_logs() as logs:
            service = await house.open([])
        [said] = [line["database_connections"] for line in logs if line.get("action") == "service.started"]

        async def used_up() -> bool:
            for pool, way in (
                ("write", service.db.transaction),
                ("read", service.db.connection),
                ("decide", service.db.decision_transaction),
            ):
                while any(each.in_use < each.most for each in service.db.pools() if each.name == pool):
                    await held.enter_async_context(way())
            return owner.execute(OPEN).fetchone() == (said,)

        await until(used_up)
        assert said == 26

"""What a process holds for runs that wait for people: nothing. Read from its own figures, with none, some and many."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from pathlib import Path

import pytest

from benchmarks.multitude import multiply
from tests.integration.crash.street import Street, street, until
from tests.stress.budget import full

MANY = (full(1000), full(20_000))
SETTLE = 12.0
"""Seconds in which every sweep has come by several times."""

TOLD = """
SELECT r.id::text FROM approval_request AS r JOIN card_place AS p ON p.request_id = r.id AND p.ts IS NOT NULL
WHERE r.status = 'waiting'
"""
MEMORY = 15.0
"""MB by which a process may differ from itself: caches of statements, and what the allocator keeps."""


async def figures(here: Street) -> dict[str, float]:
    """Memory in MB, tasks, and connections in use or open, as process and database report them."""

    def read() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{here.serve.port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    text = await asyncio.to_thread(read)

    def figure(name: str) -> float:
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        assert found, f"{name} is not among the metrics"
        return float(found[1])

    [connections] = await here.column(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
    )
    return {
        "memory": figure("process_resident_memory_bytes") / 2**20,
        "tasks": figure("signoff_tasks"),
        "connections": float(connections),
        "waiting": figure("signoff_requests_waiting"),
    }


@pytest.mark.stress
async def test_memory_tasks_and_connections_do_not_grow_with_what_waits(
    database_url: str, tmp_path: Path
) -> None:
    """The same process with 0, 1,000 and 20,000 waiting runs: as many tasks and connections, and the same memory."""
    async with street(database_url, tmp_path, lanes=1) as here:
        await here.start()
        await here.ask(0)
        await here.approve(0)  # one whole life before, so that what a process opens once is open
        await until(lambda: here.column("SELECT 1 FROM agent_run WHERE status = 'completed'"), 20.0)
        await asyncio.sleep(SETTLE)  # the measure itself: a process at rest
        seen = [await figures(here)]
        assert seen[0]["waiting"] == 0
        await here.ask(0)
        [request] = await until(lambda: here.column(TOLD), 20.0)
        waiting = 1
        for many in MANY:
            await multiply(database_url, request, many - waiting, after=waiting)
            waiting = many
            await asyncio.sleep(SETTLE)
            seen.append(await figures(here))
        first, *others = seen
        for each in others:
            assert each["tasks"] <= first["tasks"] + 2, seen
            assert each["connections"] <= first["connections"] + 2, seen
            assert each["memory"] <= first["memory"] + MEMORY, seen
        assert others[-1]["waiting"] >= min(MANY[-1], 10_000) * 0.9, seen

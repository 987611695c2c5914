"""Drain rate of very many ready calls, as after an outage of all workers."""

from __future__ import annotations

import asyncio
import time

from agent.database.pools import Database
from benchmarks.ground import owner, take_back
from benchmarks.multitude import multiply
from benchmarks.ours import UNFINISHED
from benchmarks.report import Line
from benchmarks.setting import VOTERS, Setting
from benchmarks.side import Side
from benchmarks.stats import median
from benchmarks.votes import WARM, take
from benchmarks.waiting import Row, Waiting, count, seed

PATIENCE = 600.0


async def lines(setting: Setting, ready: int) -> list[Line]:
    """Votes without a worker, then one process; compared with the same process and eight voters."""
    url = setting.ground.fresh("bench_outage")
    calls = setting.size.calls
    first, *others = await seed(url, setting.slack, 1 + WARM + 3 * calls)
    rows = iter(others)
    await _decided(url, first)
    await multiply(url, Waiting(*first).request_id, ready - 1)
    log = setting.ground.home / "outage.log"
    async with Side("benchmarks.ours", log, url, setting.slack.api_url) as side:
        drained = await asyncio.to_thread(_drain_rate, url, ready)
        await side.ask("throughput", requests=take(rows, WARM), at_once=VOTERS)
        steady = [await side.ask("throughput", requests=take(rows, calls), at_once=VOTERS) for _ in range(3)]
    share = drained / median(steady)
    return [
        Line(
            6,
            f"{ready:,} ready calls after an outage",
            f"{drained:.0f} /s, {ready / drained:.0f} s",
            f"steady, {VOTERS} voters: {median(steady):.0f} /s",
            goal=">= 80 % of the steady rate",
            met=share >= 0.8,
            samples={"drained": [[drained]], "steady": [steady]},
        )
    ]


async def _decided(url: str, row: Row) -> None:
    """Without a worker the call is ready; all messages are marked as delivered."""
    async with Database(url, application_name="bench voter") as db:
        await count(db, Waiting(*row).ballot())
    await asyncio.to_thread(take_back, url)


def _drain_rate(url: str, ready: int) -> float:
    """Calls per second between the first and the last observed completion."""
    deadline = time.monotonic() + PATIENCE
    begun, left = None, ready
    with owner(url) as connection:
        while time.monotonic() < deadline:
            row = connection.execute(UNFINISHED).fetchone()
            left = int(row[0]) if row else 0
            now = time.monotonic()
            if begun is None and left < ready:
                begun, ready = now, left
            if begun is not None and left == 0:
                return ready / (now - begun)
            time.sleep(0.05)
    raise RuntimeError(f"{left} calls are left after {PATIENCE:.0f} s")

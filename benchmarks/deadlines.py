from __future__ import annotations

import asyncio
import time

from benchmarks.clicks import Clicker, serving
from benchmarks.ground import owner
from benchmarks.multitude import is_overdue, multiply, staff
from benchmarks.report import Line
from benchmarks.setting import Setting
from benchmarks.stats import median, p99, ratio
from benchmarks.waiting import Row, Waiting, seed

WARM = 20
BEFORE = 40
CLICKS = 200
"""At most; as many as fit into the time that the expiries take."""

APART = 0.3
PATIENCE = 600.0

_DUE = (
    "UPDATE approval_request SET expires_at = clock_timestamp() WHERE status = 'waiting' AND NOT id = ANY(%s)"
)


async def row_6(setting: Setting) -> list[Line]:
    """Everything becomes due with one COMMIT, which starts the clock. Clicks continue as before."""
    slack, due = setting.slack, setting.size.due
    staff(slack.workspace)
    url = setting.ground.fresh("bench_due")
    first, *rows = await seed(url, slack, 1 + WARM + BEFORE + CLICKS)
    await multiply(url, Waiting(*first).request_id, due - 1)
    spared = [Waiting(*row).request_id for row in rows]
    async with serving(url, slack, setting.ground.home) as clicker:
        await clicker.press(rows[:WARM], at_once=1)
        quiet = await clicker.press(rows[WARM : WARM + BEFORE], at_once=1, apart=0.05)
        await asyncio.to_thread(_make_due, url, spared)
        begun = time.monotonic()
        over = asyncio.create_task(_over(url))
        clicks = await _meanwhile(clicker, rows[WARM + BEFORE :], over)
        seconds = await over - begun
    found = ratio([clicks], [quiet], median)
    return [
        Line(
            6,
            f"{due:,} requests due at once: all expired",
            f"{seconds:.1f} s, {due / seconds:,.0f} /s",
            goal="<= 60 s",
            met=seconds <= 60,
        ),
        Line(
            6,
            f"click -> tool meanwhile ({len(clicks)}), p50",
            f"{median(clicks):.1f} ms (p99 {p99(clicks):.1f} ms)",
            f"before: {median(quiet):.1f} ms",
            found,
            "<= 2 x before",
            found.value <= 2,
            {"meanwhile": [clicks], "before": [quiet]},
        ),
    ]


def _make_due(url: str, spared: list[str]) -> None:
    with owner(url) as connection:
        connection.execute(_DUE, [spared])


async def _over(url: str) -> float:
    with owner(url) as connection:
        async with asyncio.timeout(PATIENCE):
            while await asyncio.to_thread(is_overdue, connection):
                await asyncio.sleep(0.2)
    return time.monotonic()


async def _meanwhile(clicker: Clicker, rows: list[Row], over: asyncio.Task[float]) -> list[float]:
    """Click until all has expired; at least once."""
    taken: list[float] = []
    for row in rows:
        taken += await clicker.press([row], at_once=1)
        if over.done():
            break
        await asyncio.sleep(APART)
    return taken

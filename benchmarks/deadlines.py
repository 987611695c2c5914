"""Row 6: very many deadlines pass at the same moment, while people go on clicking."""

from __future__ import annotations

import asyncio
import time

from benchmarks.clicks import Clicker, serving
from benchmarks.ground import Ground
from benchmarks.multitude import multiply, owner, staff, waiting
from benchmarks.report import Line, median, quantile
from benchmarks.waiting import Row, Waiting, seed
from slack_sandbox import SlackSandbox

WARM = 20
CLICKS = 200
"""At most; as many are made as fit into the time that the deadlines take."""

APART = 0.3
PATIENCE = 600.0

_DUE = (
    "UPDATE approval_request SET expires_at = clock_timestamp() WHERE status = 'waiting' AND NOT id = ANY(%s)"
)


async def lines(ground: Ground, slack: SlackSandbox, *, due: int) -> list[Line]:
    """All are due at one COMMIT; the clock starts there."""
    staff(slack.workspace)
    url = ground.fresh("bench_due")
    first, *rows = await seed(url, slack, 1 + WARM + CLICKS)
    await multiply(url, Waiting(*first).request_id, due - 1)
    spared = [Waiting(*row).request_id for row in rows]
    async with serving(url, slack, ground.home) as clicker:
        await clicker.press(rows[:WARM], at_once=1)
        await asyncio.to_thread(_make_due, url, spared)
        begun = time.monotonic()
        over = asyncio.create_task(_over(url))
        clicks = await _meanwhile(clicker, rows[WARM:], over)
        seconds = await over - begun
    p50, p99 = median(clicks), quantile(clicks, 0.99)
    return [
        Line(
            6,
            f"{due:,} requests due at once: all expired",
            "<= 60 s",
            f"{seconds:.1f} s, {due / seconds:.0f} /s",
            met=seconds <= 60,
        ),
        Line(
            6,
            f"click -> tool starts meanwhile ({len(clicks)})",
            "<= 25 ms, <= 120 ms",
            f"p50 {p50:.1f} ms, p99 {p99:.1f} ms",
            met=p50 <= 25 and p99 <= 120,
            samples={"ours": clicks},
        ),
    ]


def _make_due(url: str, spared: list[str]) -> None:
    with owner(url) as connection:
        connection.execute(_DUE, [spared])


async def _over(url: str) -> float:
    """The moment when nothing is overdue any more."""
    async with asyncio.timeout(PATIENCE):
        while (await asyncio.to_thread(waiting, url))[1]:
            await asyncio.sleep(0.2)
    return time.monotonic()


async def _meanwhile(clicker: Clicker, rows: list[Row], over: asyncio.Task[float]) -> list[float]:
    """One click after the other until all has expired; at least one."""
    taken: list[float] = []
    for row in rows:
        taken += await clicker.press([row], at_once=1)
        if over.done():
            break
        await asyncio.sleep(APART)
    return taken

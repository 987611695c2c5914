"""Rows 1, 10 and 13: from a signed click over HTTP to the tool."""

from __future__ import annotations

import asyncio
import time

from agent.database.address import Address
from benchmarks import polling
from benchmarks.clicks import ALL, Clicker, serving
from benchmarks.report import Goal, Line, compare, latency, within
from benchmarks.setting import APART, VOTERS, Setting
from benchmarks.side import Side
from benchmarks.stats import Rounds, median, pooled, ratio
from benchmarks.votes import dbos, take
from benchmarks.waiting import Row, seed

WARM = 40
APART_ROLES = ("web", "worker,scheduler")


async def row_1(setting: Setting) -> list[Line]:
    """From a signed click to the tool's start."""
    size = setting.size
    url = setting.ground.fresh("bench_service")
    rows = iter(await seed(url, setting.slack, WARM + size.rounds * (size.clicks + size.crowd)))
    polled = asyncio.create_task(_polled(setting))
    alone: Rounds = []
    crowd: Rounds = []
    peer: Rounds = []
    async with dbos(setting.ground) as other, serving(url, setting.slack, setting.ground.home) as clicker:
        waited = await polled
        await clicker.press(take(rows, WARM), at_once=4)
        await other.ask("latency", count=10, apart=0)
        for _ in range(size.rounds):
            alone.append(await clicker.press(take(rows, size.clicks), at_once=1, apart=APART))
            peer.append(await other.ask("latency", count=size.clicks, apart=APART))
            crowd.append(await clicker.press(take(rows, size.crowd), at_once=4))
    return [
        within(1, "click at the HTTP edge -> tool, one at a time", alone, 15),
        within(1, "click at the HTTP edge -> tool, four at a time", crowd, 30),
        compare(
            1, "click -> tool, one at a time, p50", "ms", alone, ("DBOS recv", peer), goal=Goal.at_most(1.2)
        ),
        Line(
            1,
            "click -> tool, against polling every 5 s, p50",
            f"{median(pooled(alone)):.1f} ms",
            f"polling, {polling.LOOPS} loops: {median(waited):,.0f} ms",
            samples={"polling": [waited]},
        ),
    ]


async def row_10(setting: Setting) -> list[Line]:
    """The process that receives the click has no worker; the tool starts in another process."""
    size = setting.size
    url = setting.ground.fresh("bench_apart")
    rows = iter(await seed(url, setting.slack, WARM + size.rounds * size.clicks))
    ours: Rounds = []
    peer: Rounds = []
    home = setting.ground.home
    async with (
        dbos(setting.ground) as receiver,
        Side("benchmarks.dbos_side", home / "sender.log", _dbos_url(setting), "sender") as sender,
        serving(url, setting.slack, home, APART_ROLES) as clicker,
    ):
        await clicker.press(take(rows, WARM), at_once=4)
        await _sent(sender, receiver, 10)
        for _ in range(size.rounds):
            ours.append(await clicker.press(take(rows, size.clicks), at_once=1, apart=APART))
            peer.append(await _sent(sender, receiver, size.clicks))
    what = "click in a web process -> tool in a worker process"
    return latency(10, what, ours, ("DBOS, two processes", peer), Goal.at_most(1.3), Goal.at_most(1.5))


async def row_13(setting: Setting) -> list[Line]:
    """What a second process with all roles adds, on this machine's processors."""
    one = await _rates(setting, ALL)
    two = await _rates(setting, ALL * 2)
    found = ratio(two, one, median)
    return [
        Line(
            13,
            f"clicks -> tools started, {VOTERS} at a time, two processes against one",
            f"{median(pooled(two)):.0f} /s",
            f"one process: {median(pooled(one)):.0f} /s",
            found,
            samples={"two": two, "one": one},
        )
    ]


async def _rates(setting: Setting, roles: tuple[str, ...]) -> Rounds:
    """Clicks per second of each round, until the last tool has started."""
    size = setting.size
    url = setting.ground.fresh("bench_processes")
    rows = iter(await seed(url, setting.slack, WARM + size.rounds * size.calls))
    rates: Rounds = []
    async with serving(url, setting.slack, setting.ground.home, roles) as clicker:
        await clicker.press(take(rows, WARM), at_once=VOTERS)
        for _ in range(size.rounds):
            rates.append([await _rate(clicker, take(rows, size.calls))])
    return rates


async def _rate(clicker: Clicker, rows: list[Row]) -> float:
    begun = time.monotonic()
    await clicker.press(rows, at_once=VOTERS)
    return len(rows) / (time.monotonic() - begun)


async def _sent(sender: Side, receiver: Side, count: int) -> list[float]:
    """Milliseconds from `send` in one process to `recv` in the other."""
    taken = []
    for name in await receiver.ask("park", count=count):
        begun = await sender.ask("send", name=name)
        taken.append((await receiver.ask("returned", name=name) - begun) / 1e6)
        await asyncio.sleep(APART)
    return taken


def _dbos_url(setting: Setting) -> str:
    return setting.ground.server.url.replace("/postgres?", "/bench_dbos?", 1)


async def _polled(setting: Setting) -> list[float]:
    url = setting.ground.fresh("bench_polling", migrated=False)
    return await polling.latency(Address.read(url, "public").conninfo("bench polling"))

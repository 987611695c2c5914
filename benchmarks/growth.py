"""`python -m benchmarks.growth [--sizes 0,1000,…] [--decided 0,1000,…]`: how the service's times grow with the number
of requests, waiting ones and decided ones.

At each size the service is restarted on the same database and measured; DBOS has the given number of workflows waiting
in `recv`. At the end everything becomes due at once, and a backlog of ready calls is drained. Decided requests have a
database of their own, whose lists, searches and pages are read.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import psutil

from agent.database.pools import Database
from agent.usecases import requests
from benchmarks import deadlines, outage, report
from benchmarks.counted import seconds, server_cpu
from benchmarks.crowded import compared
from benchmarks.decided import multiply_decided, originals
from benchmarks.ground import ground, owner, take_back
from benchmarks.look import WARM, Look, look
from benchmarks.multitude import multiply, staff
from benchmarks.reading import PAGES, read
from benchmarks.report import Line
from benchmarks.setting import APART, FULL, QUICK, Setting
from benchmarks.side import BOT_TOKEN, Side
from benchmarks.stats import median, p99, ratio
from benchmarks.votes import dbos, take
from benchmarks.waiting import Row, Waiting, seed
from signoff_demo.sandbox import SlackSandbox
from signoff_demo.sandbox.workspace import demo_workspace

SIZES = (0, 1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (0, 1_000, 5_000)
FULL_PAGES = 1_000
"""Decided requests that fill each page, so that more of them need not make it slower."""

READ_WITHIN = 30.0
"""Milliseconds."""

DUE = 500
"""Requests that one sweep expires."""

_MAKE_DUE = """
UPDATE approval_request SET expires_at = clock_timestamp() WHERE id IN (
    SELECT id FROM approval_request WHERE status = 'waiting' AND approvers <> '["S0FINANCE"]' ORDER BY id LIMIT %s)
"""
_SIZE = "SELECT pg_database_size(current_database())"


async def grow(setting: Setting, sizes: list[int]) -> dict[str, Any]:
    """Measure at each size, smallest first, and compare last with first."""
    staff(setting.slack.workspace)
    url = setting.ground.fresh("bench_growth")
    each = WARM + setting.size.clicks + WARM + setting.size.votes
    first, *others = await seed(url, setting.slack, 2 + len(sizes) * each)
    rows = iter(others)
    looks: list[Look] = []
    points: list[dict[str, Any]] = []
    made = 0
    for size in sizes:
        begun = time.monotonic()
        if size > made:
            await multiply(url, Waiting(*first).request_id, size - made, after=made)
            made = size
        built = time.monotonic() - begun
        looks.append(await look(setting, url, rows))
        found = vars(looks[-1]) | {"vote": await _votes(setting, url, rows), "built": built}
        found |= {"expire": await _expiry(url), "bytes": await asyncio.to_thread(_bytes, url)}
        points.append({"waiting": size} | found)
        print(
            f"{size:,} waiting: {time.monotonic() - begun:.0f} s, {built:.0f} of it to make them", flush=True
        )
    lines = compared(f"{sizes[-1]:,} waiting", looks[-1], looks[0]) if len(looks) > 1 else []
    if len(points) > 1:
        slower = ratio([points[-1]["vote"]], [points[0]["vote"]], median)
        middles = [f"{median(point['vote']):.1f} ms" for point in (points[-1], points[0])]
        goal = ("<= 1.3 x none", slower.value <= 1.3)
        lines.append(Line(5, "vote -> tool, p50", middles[0], f"none: {middles[1]}", slower, *goal))
    return {"points": points, "lines": lines}


async def decided(setting: Setting, sizes: list[int]) -> dict[str, Any]:
    """Read the pages at each size, smallest first, and compare the last with the first that fills them."""
    staff(setting.slack.workspace)
    url = setting.ground.fresh("bench_decided")
    await seed(url, setting.slack, 1)
    of = await originals(setting.slack, url, setting.ground.home)
    points: list[dict[str, Any]] = []
    made = 0
    for size in sizes:
        begun = time.monotonic()
        if size > made:
            await multiply_decided(url, of, size - made, after=made)
            made = size
        built = time.monotonic() - begun
        reading = await read(setting, url)
        points.append(
            {"decided": size, "built": built, "memory": reading.memory, "cpu": reading.cpu}
            | {"bytes": await asyncio.to_thread(_bytes, url), "pages": reading.pages}
        )
        print(
            f"{size:,} decided: {time.monotonic() - begun:.0f} s, {built:.0f} of it to make them", flush=True
        )
    full = [point for point in points if point["decided"] >= FULL_PAGES]
    lines = [_page_line(name, full[-1], full[0]) for name in PAGES] if len(full) > 1 else []
    return {"points": points, "lines": lines}


def _page_line(name: str, many: dict[str, Any], few: dict[str, Any]) -> Line:
    pages = many["pages"][name], few["pages"][name]
    slower = ratio([pages[0]], [pages[1]], median)
    at = [f"{median(each):.1f} ms (p99 {p99(each):.1f})" for each in pages]
    met = median(pages[0]) <= READ_WITHIN and slower.value <= 1.3
    goal = f"<= {READ_WITHIN:.0f} ms, <= 1.3 x"
    what = f"{PAGES[name]}, {many['decided']:,} decided"
    return Line(5, what, at[0], f"{few['decided']:,}: {at[1]}", slower, goal, met)


async def _votes(setting: Setting, url: str, rows: Iterator[Row]) -> list[float]:
    """Milliseconds from vote to tool in one process."""
    log = setting.ground.home / "growth.log"
    async with Side("benchmarks.ours", log, url, setting.slack.api_url) as side:
        await side.ask("latency", requests=take(rows, WARM), apart=0)
        found: list[float] = await side.ask("latency", requests=take(rows, setting.size.votes), apart=APART)
        await side.ask("idle")
    return found


async def _expiry(url: str) -> float:
    """Milliseconds per request of an expiry sweep, without other load or messages."""
    with owner(url) as connection:
        due = connection.execute(_MAKE_DUE, [DUE]).rowcount
    begun = time.monotonic()
    async with Database(url, application_name="bench sweep") as db:
        while await requests.expire_due(db):
            pass
    taken = (time.monotonic() - begun) * 1e3
    await asyncio.to_thread(take_back, url)
    return taken / max(due, 1)


def _bytes(url: str) -> int:
    with owner(url) as connection:
        row = connection.execute(_SIZE).fetchone()
    return int(row[0]) if row else 0


async def peer(setting: Setting, waiting: int) -> dict[str, Any]:
    """Latency, memory and idle CPU time of DBOS with this many workflows in `recv`, and with none."""
    found: dict[str, Any] = {"waiting": waiting}
    async with dbos(setting.ground) as side:
        await side.ask("latency", count=WARM, apart=0)
        found["recv_none"] = await side.ask("latency", count=setting.size.votes, apart=APART)
        begun = time.monotonic()
        await side.ask("park", count=waiting)
        found["built"] = time.monotonic() - begun
        process = psutil.Process(side.pid)
        found["memory"] = process.memory_info().rss / 2**20
        before, of_server, at = seconds(process), server_cpu(setting.ground), time.monotonic()
        await asyncio.sleep(setting.size.window)
        passed = time.monotonic() - at
        found["idle"] = 100 * (seconds(process) - before) / passed
        found["database"] = 100 * (server_cpu(setting.ground) - of_server) / passed
        found["recv"] = await side.ask("latency", count=setting.size.votes, apart=APART)
    return found


async def run(options: argparse.Namespace, command: str) -> None:
    size = replace(QUICK if options.quick else FULL, due=options.due)
    begun, load = time.monotonic(), os.getloadavg()[0]
    content: dict[str, Any] = {
        "command": command,
        "machine": report.machine() | {"load_before": round(load, 2)},
    }
    lines: list[Line] = []
    with ground() as floor:
        async with SlackSandbox(
            demo_workspace(), bot_token=BOT_TOKEN, rate_limits=False, echo=False
        ) as slack:
            setting = Setting(floor, slack, size)
            content["server"] = floor.about()
            parts: list[tuple[int, Callable[[], Awaitable[list[Line]]]]] = [
                (options.due, lambda: deadlines.row_6(setting)),
                (options.ready, lambda: outage.lines(setting, options.ready)),
            ]
            if options.sizes:
                grown = await grow(setting, options.sizes)
                content["points"] = grown["points"]
                lines += grown["lines"]
            if options.decided:
                found = await decided(setting, options.decided)
                content["decided"] = found["points"]
                lines += found["lines"]
            if options.dbos:
                content["dbos"] = await peer(setting, options.dbos)
            for wanted, measure in parts:
                lines += await measure() if wanted else []
    content |= {"seconds": round(time.monotonic() - begun), "lines": report.as_json(lines)}
    path = report.save(floor.home, "growth", content)
    report.show(lines, [f"every sample: {path}"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer samples at each size")
    parser.add_argument("--sizes", type=_numbers, help="waiting requests, with commas; '' for none")
    parser.add_argument("--decided", type=_numbers, help="decided requests, with commas; '' for none")
    parser.add_argument(
        "--dbos", type=int, default=10_000, metavar="N", help="workflows that wait beside them"
    )
    parser.add_argument("--due", type=int, default=100_000, metavar="N", help="requests that are due at once")
    parser.add_argument("--ready", type=int, default=10_000, metavar="N", help="ready calls after an outage")
    options = parser.parse_args()
    for name in ("sizes", "decided"):
        if getattr(options, name) is None:
            setattr(options, name, list(QUICK_SIZES if options.quick else SIZES))
    given = {name: value for name, value in vars(options).items() if name != "quick"}
    said = [f"--{name} {value if value != [] else repr('')}" for name, value in given.items()]
    command = " ".join(["python -m benchmarks.growth", *["--quick"] * options.quick, *said])
    asyncio.run(run(options, command.replace("[", "").replace("]", "").replace(", ", ",")))


def _numbers(text: str) -> list[int]:
    return sorted(int(each) for each in text.split(",") if each)


if __name__ == "__main__":
    main()

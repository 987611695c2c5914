"""`python -m benchmarks [--quick] [--row N] [--waiting N] [--due N]`: measure, print the table, keep the samples."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from agent.database.address import Address
from benchmarks import acknowledged, deadlines, polling, report, told
from benchmarks.clicks import serving
from benchmarks.crowded import Crowded
from benchmarks.ground import Ground, ground
from benchmarks.report import Line, median, quantile
from benchmarks.side import Side
from benchmarks.waiting import Row, seed
from slack_sandbox import SlackSandbox
from slack_sandbox.workspace import demo_workspace

APART = 0.05
"""Seconds between one sequential sample and the next, so that the aftermath of one is not in the other."""

VOTERS = 8
"""Votes at a time in row 3: as many as there are connections for decisions."""


@dataclass(frozen=True)
class Size:
    """How much is measured: rounds that take turns with the peer's, and what is in one."""

    rounds: int
    clicks: int
    crowd: int
    votes: int
    calls: int
    transactions: int
    waiting: int
    window: float
    due: int
    paced: int
    waiters: int


FULL = Size(
    5,
    60,
    crowd=40,
    votes=40,
    calls=60,
    transactions=40,
    waiting=1_000_000,
    window=30,
    due=100_000,
    paced=250,
    waiters=5_000,
)
QUICK = Size(
    2,
    20,
    crowd=20,
    votes=20,
    calls=60,
    transactions=30,
    waiting=50_000,
    window=10,
    due=5_000,
    paced=150,
    waiters=1_000,
)
ROWS = (1, 2, 3, 4, 5, 6, 7, 8)


class Bench:
    """One run. Each row is a method; the stand-in for Slack is shared by all."""

    def __init__(self, ground: Ground, slack: SlackSandbox, size: Size) -> None:
        self._ground = ground
        self._slack = slack
        self._size = size

    async def row_1(self) -> list[Line]:
        """A signed click arrives; the tool starts."""
        size = self._size
        url = self._ground.fresh("bench_service")
        rows = iter(await seed(url, self._slack, 30 + size.rounds * (size.clicks + size.crowd)))
        polled = asyncio.create_task(self._polled())
        alone: list[float] = []
        crowd: list[float] = []
        peer: list[float] = []
        async with self._dbos() as dbos, serving(url, self._slack, self._ground.home) as clicker:
            waited = await polled
            await clicker.press([next(rows) for _ in range(30)], at_once=3)
            await dbos.ask("latency", count=10, apart=0)
            for _ in range(size.rounds):
                batch = [next(rows) for _ in range(size.clicks)]
                alone += await clicker.press(batch, at_once=1, apart=APART)
                peer += await dbos.ask("latency", count=size.clicks, apart=APART)
                crowd += await clicker.press([next(rows) for _ in range(size.crowd)], at_once=4)
        samples = {"dbos": peer, "polling": waited}
        return [
            _latency(
                1, "click -> tool starts, one at a time", alone, samples, "<= 25 ms, <= 120 ms", (25, 120)
            ),
            _latency(
                1, "click -> tool starts, 4 at a time", crowd, samples, "<= 25 ms, <= 120 ms", (25, 120)
            ),
            Line(
                1,
                "click -> tool starts, against polling every 5 s",
                "",
                f"p50 {median(alone):.1f} ms",
                f"polling: p50 {median(waited):.0f} ms ({polling.LOOPS} loops)",
                median(waited) / median(alone),
            ),
        ]

    async def row_2(self) -> list[Line]:
        """`requests.vote` is called; the tool starts."""
        size = self._size
        ours: list[float] = []
        peer: list[float] = []
        async with self._ours(20 + size.rounds * size.votes) as (side, rows), self._dbos() as dbos:
            await side.ask("latency", requests=[next(rows) for _ in range(20)], apart=0)
            await dbos.ask("latency", count=10, apart=0)
            for _ in range(size.rounds):
                batch = [next(rows) for _ in range(size.votes)]
                ours += await side.ask("latency", requests=batch, apart=APART)
                peer += await dbos.ask("latency", count=size.votes, apart=APART)
        goal = f"p50 below {median(peer):.1f} ms"
        return [
            _latency(
                2, "vote called -> tool starts", ours, {"dbos": peer}, goal, (median(peer), float("inf"))
            )
        ]

    async def row_3(self) -> list[Line]:
        """Votes committed and calls executed."""
        size = self._size
        ours: list[float] = []
        peer: list[float] = []
        async with self._ours(40 + size.rounds * size.calls) as (side, rows), self._dbos() as dbos:
            await side.ask("throughput", requests=[next(rows) for _ in range(40)], at_once=VOTERS)
            await dbos.ask("throughput", count=40, at_once=VOTERS)
            for _ in range(size.rounds):
                batch = [next(rows) for _ in range(size.calls)]
                ours.append(await side.ask("throughput", requests=batch, at_once=VOTERS))
                await side.ask("idle")
                peer.append(await dbos.ask("throughput", count=size.calls, at_once=VOTERS))
        return [
            _rate(
                3,
                "votes committed and calls executed",
                ours,
                {"dbos": peer},
                ">= 300 /s",
                median(ours) >= 300,
            )
        ]

    async def row_4(self) -> list[Line]:
        """A vote's transaction against the same writes without us."""
        size = self._size
        url = self._ground.fresh("bench_vote")
        rows = iter(await seed(url, self._slack, 40 + size.rounds * size.transactions * 2))
        rates: dict[str, list[float]] = {"ours": [], "psycopg": [], "pipelined": []}
        async with Side("benchmarks.ours", self._ground.home / "vote.log", url) as side:
            await side.ask("ours", requests=[next(rows) for _ in range(40)])
            for _ in range(size.rounds):
                batch = [next(rows) for _ in range(size.transactions)]
                rates["ours"].append(await side.ask("ours", requests=batch))
                half = size.transactions // 2
                await side.ask("record", requests=[next(rows) for _ in range(half)])
                rates["psycopg"].append(await side.ask("bare", pipeline=False))
                await side.ask("record", requests=[next(rows) for _ in range(half)])
                rates["pipelined"].append(await side.ask("bare", pipeline=True))
        ours = rates.pop("ours")
        enough = median(ours) >= 0.5 * median(rates["psycopg"])
        pipelined = {"pipelined": rates.pop("pipelined")}
        return [
            _rate(4, "vote transactions, one connection", ours, rates, ">= 50 % of bare", enough),
            _rate(4, "the same against a pipelined bare transaction", ours, pipelined, "", None),
        ]

    async def row_5(self) -> list[Line]:
        """So many wait that everything which looks at all of them would be seen."""
        size = self._size
        crowded = Crowded(
            self._ground, self._slack, waiting=size.waiting, clicks=size.clicks, window=size.window
        )
        return await crowded.lines()

    async def row_6(self) -> list[Line]:
        """Everything is due at once."""
        return await deadlines.lines(self._ground, self._slack, due=self._size.due)

    async def row_7(self) -> list[Line]:
        """Clicks at a steady pace."""
        size = self._size
        return await acknowledged.lines(self._ground, self._slack, rounds=size.rounds, clicks=size.paced)

    async def row_8(self) -> list[Line]:
        """Programs that wait over HTTP."""
        return await told.lines(self._ground, self._slack, waiters=self._size.waiters)

    async def _polled(self) -> list[float]:
        url = self._ground.fresh("bench_polling", migrated=False)
        return await polling.latency(Address.read(url, "public").conninfo("bench polling"))

    @asynccontextmanager
    async def _ours(self, count: int) -> AsyncIterator[tuple[Side, Iterator[Row]]]:
        url = self._ground.fresh("bench_ours")
        rows = iter(await seed(url, self._slack, count))
        log = self._ground.home / "ours.log"
        async with Side("benchmarks.ours", log, url, self._slack.api_url) as side:
            yield side, rows

    @asynccontextmanager
    async def _dbos(self) -> AsyncIterator[Side]:
        url = self._ground.fresh("bench_dbos", migrated=False)
        async with Side("benchmarks.dbos_side", self._ground.home / "dbos.log", url) as side:
            yield side


def _latency(
    row: int,
    what: str,
    ours: list[float],
    peers: dict[str, list[float]],
    goal: str,
    limits: tuple[float, float],
) -> Line:
    name, peer = next(iter(peers.items()))
    p50, p99 = median(ours), quantile(ours, 0.99)
    return Line(
        row,
        f"{what} ({len(ours)})",
        goal,
        f"p50 {p50:.1f} ms, p99 {p99:.1f} ms",
        f"{name}: p50 {median(peer):.1f} ms, p99 {quantile(peer, 0.99):.1f} ms",
        median(peer) / p50,
        p50 <= limits[0] and p99 <= limits[1],
        {"ours": ours, **peers},
    )


def _rate(
    row: int, what: str, ours: list[float], peers: dict[str, list[float]], goal: str, met: bool | None
) -> Line:
    ((name, peer),) = peers.items()
    return Line(
        row,
        what,
        goal,
        f"{median(ours):.0f} /s",
        f"{name}: {median(peer):.0f} /s",
        median(ours) / median(peer),
        met,
        {"ours": ours, **peers},
    )


async def run(size: Size, rows: list[int]) -> None:
    """Measure these rows; a polite signal ends it like an error, with everything stopped."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    begun, load = time.monotonic(), os.getloadavg()[0]
    workspace = demo_workspace()
    with ground() as floor:
        async with SlackSandbox(workspace, rate_limits=False, echo=False) as slack:
            bench = Bench(floor, slack, size)
            lines = []
            for row in rows:
                start = time.monotonic()
                lines += await getattr(bench, f"row_{row}")()
                print(f"row {row}: {time.monotonic() - start:.0f} s", flush=True)
        about = floor.about()
        path = report.save(floor.home, lines, size=vars(size), server=about, load=load)
    seconds = time.monotonic() - begun
    notes = [
        f"{size.rounds} rounds each, in turns with the peer, {seconds:.0f} s.",
        f"Load before the start {load:.1f}, in the end {os.getloadavg()[0]:.1f}; {os.cpu_count()} CPUs.",
        f"fsync {about['fsync']}.",
        "ratio: how many times better than the peer. DBOS receives a message; we judge, record, execute and tell.",
        f"every sample: {path}",
    ]
    report.show(lines, notes)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a first look")
    parser.add_argument(
        "--row", type=int, choices=ROWS, action="append", help="only this row; may be repeated"
    )
    parser.add_argument("--waiting", type=int, metavar="N", help="requests that wait in row 5")
    parser.add_argument("--waiters", type=int, metavar="N", help="programs that wait in row 8")
    parser.add_argument("--due", type=int, metavar="N", help="requests that are due at once in row 6")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    size = replace(size, waiting=options.waiting or size.waiting, due=options.due or size.due)
    size = replace(size, waiters=options.waiters or size.waiters)
    asyncio.run(run(size, options.row or list(ROWS)))


if __name__ == "__main__":
    main()

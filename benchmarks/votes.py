from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from agent.runtime.tool import Tool
from benchmarks.ground import Ground
from benchmarks.ours import SILENT
from benchmarks.payments import pay, pay_priced
from benchmarks.report import Goal, Line, compare, latency
from benchmarks.setting import APART, VOTERS, Setting
from benchmarks.side import Side
from benchmarks.stats import Rounds
from benchmarks.waiting import Row, seed

WARM = 100
"""Uncounted votes: enough for each of the eight connections to prepare its statements."""


async def row_2(setting: Setting) -> list[Line]:
    """From a vote to the tool's start."""
    ours, peer = await compared(setting, setting.ground, "latency")
    goals = Goal.surely_at_most(1.1), Goal.surely_at_most(2.0)
    return latency(2, "vote -> tool starts", ours, ("DBOS recv", peer), *goals)


async def row_3(setting: Setting) -> list[Line]:
    """Votes committed and calls executed, with eight concurrent voters."""
    ours, peer = await compared(setting, setting.ground, "throughput")
    what = f"decided and executed, {VOTERS} voters"
    return [compare(3, what, "/s", ours, ("DBOS recv", peer), goal=Goal.at_least(1.8))]


async def compared(setting: Setting, ground: Ground, what: str) -> tuple[Rounds, Rounds]:
    """Milliseconds of each vote, or calls per second of each round."""
    count, how = _round(setting, what)
    ours: Rounds = []
    peer: Rounds = []
    total = WARM + setting.size.rounds * count
    async with voting(setting, ground, total) as (side, rows), dbos(ground) as other:
        await side.ask("throughput", requests=take(rows, WARM), at_once=VOTERS)
        await other.ask("throughput", count=WARM, at_once=VOTERS)
        for _ in range(setting.size.rounds):
            await side.ask("idle")
            ours.append(_listed(await side.ask(what, requests=take(rows, count), **how)))
            await side.ask("idle")
            peer.append(_listed(await other.ask(what, count=count, **how)))
    return ours, peer


async def row_4(setting: Setting) -> list[Line]:
    """A vote's transaction against the same writes by psycopg alone, both with prepared statements."""
    size = setting.size
    url = setting.ground.fresh("bench_vote")
    half = size.transactions // 2
    rows = iter(await seed(url, setting.slack, WARM + size.rounds * (size.transactions + 2 * half)))
    rates: dict[str, Rounds] = {"ours": [], "in turn": [], "pipelined": []}
    async with Side("benchmarks.ours", setting.ground.home / "vote.log", url) as side:
        await side.ask("ours", requests=take(rows, WARM))
        for _ in range(size.rounds):
            rates["ours"].append([await side.ask("ours", requests=take(rows, size.transactions))])
            for name in ("in turn", "pipelined"):
                await side.ask("record", requests=take(rows, half))
                rates[name].append([await side.ask("bare", pipeline=name == "pipelined")])
    ours = rates.pop("ours")
    goals = {"in turn": Goal.at_least(0.5)}
    return [
        compare(
            4,
            "vote transactions, one connection",
            "/s",
            ours,
            (f"psycopg, {name}", peer),
            goal=goals.get(name),
        )
        for name, peer in rates.items()
    ]


async def row_9(setting: Setting) -> list[Line]:
    """A tool whose facts are looked up again before it starts, against the same tool without facts."""
    size = setting.size
    without: Rounds = []
    facts: Rounds = []
    async with (
        voting(setting, setting.ground, WARM + size.rounds * size.votes) as (side, rows),
        voting(setting, setting.ground, WARM + size.rounds * size.votes, pay_priced) as (priced, more),
    ):
        await side.ask("throughput", requests=take(rows, WARM), at_once=VOTERS)
        await priced.ask("throughput", requests=take(more, WARM), at_once=VOTERS)
        for _ in range(size.rounds):
            await priced.ask("idle")
            without.append(await side.ask("latency", requests=take(rows, size.votes), apart=APART))
            await side.ask("idle")
            facts.append(await priced.ask("latency", requests=take(more, size.votes), apart=APART))
    return latency(9, "vote -> tool with facts starts", facts, ("without facts", without), None, None)


@asynccontextmanager
async def voting(
    setting: Setting, ground: Ground, count: int, tool: Tool = pay, *, silent: bool = False
) -> AsyncIterator[tuple[Side, Iterator[Row]]]:
    name = f"bench_{tool.name}"
    url = ground.fresh(name)
    rows = iter(await seed(url, setting.slack, count, tool))
    log = ground.home / f"{name}.log"
    environment = {SILENT: "1"} if silent else {}
    async with Side("benchmarks.ours", log, url, setting.slack.api_url, **environment) as side:
        yield side, rows


@asynccontextmanager
async def dbos(ground: Ground) -> AsyncIterator[Side]:
    url = ground.fresh("bench_dbos", migrated=False)
    async with Side("benchmarks.dbos_side", ground.home / "dbos.log", url) as side:
        yield side


def take(rows: Iterator[Row], count: int) -> list[Row]:
    return [next(rows) for _ in range(count)]


def _round(setting: Setting, what: str) -> tuple[int, dict[str, Any]]:
    if what == "latency":
        return setting.size.votes, {"apart": APART}
    return setting.size.calls, {"at_once": VOTERS}


def _listed(found: float | list[float]) -> list[float]:
    return found if isinstance(found, list) else [found]

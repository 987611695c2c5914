"""Row 12: the cost of one decision: statements, commits, flushes, bytes, CPU time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.clicks import serving
from benchmarks.counted import Spent, spent, statements
from benchmarks.look import told
from benchmarks.report import Line
from benchmarks.setting import VOTERS, Setting
from benchmarks.side import Side
from benchmarks.votes import WARM, take, voting
from benchmarks.waiting import Row, seed

COUNTED = 40
"""Votes whose statements are counted; statement logging is off during timing."""

LONE = 20
"""Sequential clicks that are followed to their last message."""

FEW = 8
"""Clicks before those. A channel takes about a message a second, and all messages are awaited."""

IDLE = 6.0
MINUTE = 60.0
"""Seconds that an idle service is measured: its sweeps run every minute."""


async def row_12(setting: Setting) -> list[Line]:
    """The vote cycle alone and with eight voters, then the full path to the last message."""
    cycles = await _cycles(setting)
    whole = await _whole_way(setting)
    sent = whole["messages"]
    of_each = (whole["statements"] - cycles["alone"]["statements"]) / sent
    return [
        _cycle("vote -> result -> next turn, alone", cycles["alone"]),
        _cycle(f"the same, {VOTERS} voters", cycles["crowd"], goal=(12, 2)),
        Line(
            12,
            "click at the HTTP edge -> last card: statements",
            f"{whole['statements']:.1f}, for {sent:.1f} messages",
            goal="<= 45",
            met=whole["statements"] <= 45,
            samples={text: [[each]] for text, each in whole["texts"].items()},
        ),
        Line(12, "statements for each message", f"{of_each:.1f}", goal="<= 4", met=of_each <= 4),
        Line(12, "statements of an idle service", f"{whole['idle']:.1f} /s"),
    ]


def _cycle(what: str, found: Mapping[str, Any], goal: tuple[int, int] | None = None) -> Line:
    within = goal and found["statements"] <= goal[0] and found["commits"] <= goal[1]
    return Line(
        12,
        what,
        f"{found['statements']:.1f} statements, {found['commits']:.2f} commits, {found['flushes']:.2f} flushes, "
        f"{found['wal']:,.0f} bytes of WAL; Python {found['python_ms']:.1f} ms, PostgreSQL {found['server_ms']:.1f} ms",
        goal=f"<= {goal[0]} statements, <= {goal[1]} commits" if goal else "",
        met=within,
        samples={name: [[value]] for name, value in found.items() if name != "texts"}
        | {text: [[each]] for text, each in found["texts"].items()},
    )


@dataclass(frozen=True)
class Mode:
    """Our side's command, and the number of timed votes."""

    command: str
    votes: int
    arguments: dict[str, Any]


async def _cycles(setting: Setting) -> dict[str, dict[str, Any]]:
    """Without Slack; each vote is counted to the end of its run's next turn."""
    calls = setting.size.calls
    modes = {
        "alone": Mode("latency", setting.size.votes, {"apart": 0.02}),
        "crowd": Mode("throughput", calls, {"at_once": VOTERS}),
    }
    total = WARM + 2 * COUNTED + setting.size.votes + calls
    found = {}
    async with voting(setting, setting.ground, total, silent=True) as (side, rows):
        await side.ask("throughput", requests=take(rows, WARM), at_once=VOTERS)
        for name, mode in modes.items():
            found[name] = await _counted(setting, side, take(rows, COUNTED), mode)
            found[name] |= await _spent(setting, side, take(rows, mode.votes), mode)
    return found


async def _counted(setting: Setting, side: Side, rows: list[Row], mode: Mode) -> dict[str, Any]:
    await side.ask("idle")
    with statements(setting.ground) as idle:
        begun = time.monotonic()
        await asyncio.sleep(IDLE)
        lasted = time.monotonic() - begun
    with statements(setting.ground) as busy:
        begun = time.monotonic()
        await side.ask(mode.command, requests=rows, **mode.arguments)
        await side.ask("idle")
        took = time.monotonic() - begun
    texts = _each(busy, idle, took / lasted, len(rows))
    return {"statements": sum(texts.values()), "texts": texts}


async def _spent(setting: Setting, side: Side, rows: list[Row], mode: Mode) -> dict[str, float]:
    before = await asyncio.to_thread(spent, setting.ground, "bench_pay")
    of_python = await side.ask("cpu")
    await side.ask(mode.command, requests=rows, **mode.arguments)
    await side.ask("idle")
    of_python = await side.ask("cpu") - of_python
    total: Spent = await asyncio.to_thread(spent, setting.ground, "bench_pay") - before
    each = {"commits": total.commits, "flushes": total.flushes, "wal": total.wal}
    times = {"python_ms": of_python * 1e3, "server_ms": total.server_cpu * 1e3}
    return {name: value / len(rows) for name, value in (each | times).items()}


async def _whole_way(setting: Setting) -> dict[str, Any]:
    """Clicks over HTTP, each until nothing is left to send, minus the cost of an idle service."""
    url = setting.ground.fresh("bench_whole")
    rows = iter(await seed(url, setting.slack, FEW + LONE))
    async with serving(url, setting.slack, setting.ground.home) as clicker:
        await clicker.press(take(rows, FEW), at_once=2)
        await told(url)
        with statements(setting.ground) as idle:
            begun = time.monotonic()
            await asyncio.sleep(MINUTE)
            lasted = time.monotonic() - begun
        calls = setting.slack.web_api.calls
        seen, took = len(calls), 0.0
        with statements(setting.ground) as busy:
            for row in take(rows, LONE):
                begun = time.monotonic()
                await clicker.press([row], at_once=1)
                await _quiet(calls)
                took += time.monotonic() - begun
        sent = sum(call.method.startswith("chat.") for call in calls[seen:])
    texts = _each(busy, idle, took / lasted, LONE)
    return {
        "statements": sum(texts.values()),
        "texts": texts,
        "messages": sent / LONE,
        "idle": sum(idle.values()) / lasted,
    }


def _each(busy: Counter[str], idle: Counter[str], longer: float, count: int) -> dict[str, float]:
    """Statements of one decision by text, minus those of an idle process in the same time."""
    every = {text: (sent - idle[text] * longer) / count for text, sent in busy.most_common()}
    return {text: each for text, each in every.items() if each > 1 / 20}


async def _quiet(calls: list[Any]) -> None:
    """The last message is sent when Slack has received no call for two seconds."""
    seen = -1
    while seen != len(calls):
        seen = len(calls)
        await asyncio.sleep(2.0)

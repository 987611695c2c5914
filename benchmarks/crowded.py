"""Row 5: what a multitude of waiting requests costs the real service, against the same service with none of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from benchmarks.clicks import Clicker, serving
from benchmarks.ground import Ground
from benchmarks.multitude import multiply, staff
from benchmarks.report import Line, median, quantile
from benchmarks.waiting import ADA, GRACE, TEAM, Row, Waiting, seed
from slack_sandbox import SlackSandbox
from slackbot.slack.app_home import PACE

WARM = 20
APART = 0.05
SETTLE = 4.0
"""Seconds after the last click before the service counts as idle: cards and threads have been told by then."""


@dataclass(frozen=True)
class Look:
    """The service as it was found. Times in ms, but ``ready`` in s; memory in MB; processor time in % of one."""

    ready: float
    memory: float
    idle: float
    database: float
    clicks: list[float]
    todo: list[float]
    mine: list[float]
    home: list[float]


class Crowded:
    """One database, looked at twice."""

    def __init__(
        self, ground: Ground, slack: SlackSandbox, *, waiting: int, clicks: int, window: float
    ) -> None:
        self._ground = ground
        self._slack = slack
        self._waiting = waiting
        self._clicks = clicks
        self._window = window

    async def lines(self) -> list[Line]:
        """Measure with none and with all."""
        staff(self._slack.workspace)
        url = self._ground.fresh("bench_crowd")
        first, *others = await seed(url, self._slack, 1 + 2 * (WARM + self._clicks))
        rows = iter(others)
        none = await self._look(url, rows)
        begun = time.monotonic()
        await multiply(url, Waiting(*first).request_id, self._waiting)
        print(f"row 5: {self._waiting:,} copies made in {time.monotonic() - begun:.0f} s", flush=True)
        return _compared(f"{self._waiting:,} waiting", await self._look(url, rows), none)

    async def _look(self, url: str, rows: Iterator[Row]) -> Look:
        begun = time.monotonic()
        async with serving(url, self._slack, self._ground.home) as clicker:
            ready = time.monotonic() - begun
            await clicker.press([next(rows) for _ in range(WARM)], at_once=1)
            await asyncio.sleep(SETTLE)
            memory, idle, database = await self._at_rest(clicker.pid)
            clicks = await clicker.press([next(rows) for _ in range(self._clicks)], at_once=1, apart=APART)
            await asyncio.sleep(SETTLE)
            todo = [await self._page(clicker, GRACE.user_id, "") for _ in range(self._clicks)]
            mine = [await self._page(clicker, ADA.user_id, "mine") for _ in range(self._clicks)]
            home = [await self._home(clicker) for _ in range(6)]
        return Look(ready, memory, idle, database, clicks, todo[3:], mine[3:], home[1:])

    async def _at_rest(self, pid: int) -> tuple[float, float, float]:
        """Memory, and the processor time that service and database take while nobody does anything."""
        service = psutil.Process(pid)
        before, at, of_server = _seconds(service), time.monotonic(), self._of_server()
        await asyncio.sleep(self._window)
        passed = time.monotonic() - at
        idle = 100 * (_seconds(service) - before) / passed
        return service.memory_info().rss / 2**20, idle, 100 * (self._of_server() - of_server) / passed

    def _of_server(self) -> float:
        server = psutil.Process(self._ground.server.pid)
        return sum(_seconds(each) for each in (server, *server.children()))

    async def _page(self, clicker: Clicker, user_id: str, text: str) -> float:
        """`/approvals …`: the acknowledgement is the list."""
        workspace = self._slack.workspace
        form = self._slack.interactions.command(
            workspace.members[user_id],
            workspace.channels["C0GENERAL"],
            "/approvals",
            text,
            "http://127.0.0.1:9/",
        )
        signed = clicker.signing.command(form)
        begun = time.monotonic()
        status, body = await clicker.send(signed)
        taken = (time.monotonic() - begun) * 1e3
        if status != 200 or b"Pay order" not in body:
            raise RuntimeError(f"/approvals {text} was answered {status}: {body[:200]!r}")
        return taken

    async def _home(self, clicker: Clicker) -> float:
        """Grace opens her Home; what waits for her is published."""
        await asyncio.sleep(PACE + 0.2)
        event = {"type": "app_home_opened", "user": GRACE.user_id, "channel": "D0GRACE", "tab": "home"}
        calls = self._slack.web_api.calls
        seen = len(calls)
        begun = time.monotonic()
        await clicker.send(
            clicker.signing.event(
                {"type": "event_callback", "team_id": TEAM, "event": event, "event_id": "Ev1"}
            )
        )
        async with asyncio.timeout(30):
            while not any(call.method == "views.publish" for call in calls[seen:]):
                await asyncio.sleep(0.002)
        return (time.monotonic() - begun) * 1e3


def _seconds(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return float(spent.user + spent.system)


def _compared(many: str, full: Look, none: Look) -> list[Line]:
    slower = median(full.clicks) / median(none.clicks)
    return [
        Line(
            5,
            f"resident memory, {many}",
            "as with none (+ 5 %)",
            f"{full.memory:.0f} MB",
            f"none: {none.memory:.0f} MB",
            none.memory / full.memory,
            full.memory <= 1.05 * none.memory,
        ),
        Line(
            5,
            "processor time while idle",
            "<= 2 % of one",
            f"{full.idle:.1f} %; database {full.database:.1f} %",
            f"none: {none.idle:.1f} %; database {none.database:.1f} %",
            None,
            full.idle <= 2.0,
        ),
        Line(
            5,
            "ready after a restart",
            "<= 3 s",
            f"{full.ready:.1f} s",
            f"none: {none.ready:.1f} s",
            none.ready / full.ready,
            full.ready <= 3.0,
        ),
        _read("/approvals: what waits for me", full.todo, none.todo, 20.0),
        _read("/approvals mine", full.mine, none.mine, 20.0),
        _read("App Home opened -> published", full.home, none.home, None),
        Line(
            5,
            f"click -> tool starts ({len(full.clicks)})",
            "p50 <= 1.5 x none",
            f"p50 {median(full.clicks):.1f} ms, p99 {quantile(full.clicks, 0.99):.1f} ms",
            f"none: p50 {median(none.clicks):.1f} ms, p99 {quantile(none.clicks, 0.99):.1f} ms",
            1 / slower,
            slower <= 1.5,
            {"full": full.clicks, "none": none.clicks},
        ),
    ]


def _read(what: str, full: list[float], none: list[float], limit: float | None) -> Line:
    return Line(
        5,
        f"{what} ({len(full)})",
        "" if limit is None else f"p50 <= {limit:.0f} ms",
        f"p50 {median(full):.1f} ms, p99 {quantile(full, 0.99):.1f} ms",
        f"none: p50 {median(none):.1f} ms, p99 {quantile(none, 0.99):.1f} ms",
        median(none) / median(full),
        None if limit is None else median(full) <= limit,
        {"full": full, "none": none},
    )

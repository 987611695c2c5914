"""Row 8: how soon long-polls receive decisions, at fifty decisions a second."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from dataclasses import dataclass, field
from typing import Any

import psutil

from agent.database.pools import Database
from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from benchmarks.clicks import Clicker, answer_of, serving
from benchmarks.report import Line
from benchmarks.setting import Setting
from benchmarks.stats import median, p99
from benchmarks.waiting import GRACE

PER_SECOND = 50.0
OPENERS = 8
BEGIN_AT_ONCE = 2
LONGEST_WAIT = 300
"""Seconds per long poll, without proxies that cut silent connections."""
SETTLE = 3.0
"""Seconds for the waiters' first requests, before the service's memory is read."""

PATIENCE = 60.0


@dataclass
class Program:
    """Calls the service with a key, over its own connections."""

    port: int
    key: str
    told: dict[str, float] = field(default_factory=dict)
    turned_away: int = 0

    async def call(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        """Use a new connection."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                return await self.over(reader, writer, method, path, body)
            finally:
                writer.close()
        except (ConnectionError, asyncio.IncompleteReadError):  # more at once than the listen queue holds
            return 503, {}

    async def over(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        method: str,
        path: str,
        body: object = None,
    ) -> tuple[int, dict[str, Any]]:
        content = b"" if body is None else json.dumps(body).encode()
        head = {
            "Host": "127.0.0.1",
            "Authorization": f"Bearer {self.key}",
            "Content-Type": "application/json",
            "Content-Length": str(len(content)),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + content)
        status, answered = await answer_of(reader)
        return status, json.loads(answered)

    async def wait(self, request: str, room: asyncio.Semaphore) -> None:
        """Long-poll until the request is decided, and record when. ``room`` limits how many start at once."""
        async with room:
            await asyncio.sleep(0.02)
        while True:
            status, review = await self.call("GET", f"/pending/{request}?wait={LONGEST_WAIT}")
            if status == 503:  # overloaded by simultaneous calls
                self.turned_away += 1
                await asyncio.sleep(1)
            elif status != 200:
                raise RuntimeError(f"a waiter was answered {status}: {review}")
            elif review["status"] != "waiting":
                break
        self.told[request] = time.monotonic()


async def row_8(setting: Setting) -> list[Line]:
    """Each program waits for its own request; the clock starts when the decision is sent."""
    ground, slack, waiters = setting.ground, setting.slack, setting.size.waiters
    url = ground.fresh("bench_told")
    async with Database(url) as db:
        asker = await api_keys.create(db, "asker", [Scope.REQUEST], by="bench", per_minute=1_000_000)
        decider = await api_keys.create(
            db, "decider", [Scope.DECIDE], by="bench", owner=GRACE, per_minute=1_000_000
        )
    async with serving(url, slack, ground.home) as clicker:
        program, reviewer = Program(clicker.port, asker), Program(clicker.port, decider)
        requests = await opened_questions(program, waiters)
        empty = _memory(clicker)
        room = asyncio.Semaphore(BEGIN_AT_ONCE)
        waiting = [asyncio.create_task(program.wait(request, room)) for request in requests]
        await asyncio.sleep(SETTLE + waiters / 80)
        full = _memory(clicker)
        sent, busy = await _decided(reviewer, requests, clicker)
        done, late = await asyncio.wait(waiting, timeout=PATIENCE)
        for task in late:
            task.cancel()
        for task in done:
            task.result()
    delays = [(at - sent[request]) * 1e3 for request, at in program.told.items()]
    each = (full - empty) / waiters / 1024
    return [
        Line(
            8,
            f"decision sent -> its waiter is told, {waiters:,} waiting, {PER_SECOND:.0f} decisions a second",
            f"p50 {median(delays):.0f} ms, p99 {p99(delays):.0f} ms, {len(late)} not told, "
            f"{program.turned_away} waiters and {reviewer.turned_away} decisions turned away at first; "
            f"CPU {busy:.0f} %",
            goal="all told, p99 <= 1,000 ms",
            met=p99(delays) <= 1000 and not late,
            samples={"ours": [delays]},
        ),
        Line(
            8,
            "memory of the service for each waiter",
            f"{each:.1f} KB",
            goal="<= 20 KB",
            met=each <= 20,
        ),
    ]


async def opened_questions(program: Program, count: int) -> list[str]:
    """The ids of so many questions, which wait."""
    numbers = iter(range(count))
    opened: list[str] = []

    async def one_after_the_other() -> None:
        for number in numbers:
            body = {"request_id": f"question-{number}", "action_description": f"Question {number}"}
            status, review = await program.call("POST", "/pending", body)
            if status != 201:
                raise RuntimeError(f"a question was answered {status}: {review}")
            opened.append(str(review["id"]))

    await asyncio.gather(*(one_after_the_other() for _ in range(OPENERS)))
    return opened


async def _decided(
    reviewer: Program, requests: list[str], clicker: Clicker
) -> tuple[dict[str, float], float]:
    """When each decision was sent, and the share of a core that the service used meanwhile."""
    sent: dict[str, float] = {}
    gc.collect()
    gc.freeze()  # garbage collection over thousands of connections would disturb the timing
    process = psutil.Process(clicker.pid)
    process.cpu_percent()
    begun = time.monotonic()

    async def one(number: int, request: str) -> None:
        await asyncio.sleep(begun + number / PER_SECOND - time.monotonic())
        sent[request] = time.monotonic()
        while (answered := await reviewer.call("POST", f"/approve/{request}", {"decision": "approved"}))[
            0
        ] == 503:
            reviewer.turned_away += 1
            await asyncio.sleep(1)
        if answered[0] != 200:
            raise RuntimeError(f"a decision was answered {answered}")

    await asyncio.gather(*(one(number, request) for number, request in enumerate(requests)))
    return sent, process.cpu_percent()


def _memory(clicker: Clicker) -> int:
    return int(psutil.Process(clicker.pid).memory_info().rss)

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psutil

from agent.database.pools import Database
from agent.usecases import sessions
from benchmarks.clicks import Clicker, answer_of, serving
from benchmarks.counted import seconds, server_cpu
from benchmarks.ground import owner, take_back
from benchmarks.setting import APART, Setting
from benchmarks.votes import take
from benchmarks.waiting import ADA, GRACE, TEAM, Row
from slackbot.slack.app_home import PACE
from slackbot.web.auth.visitors import NAME

WARM = 20
WARM_PAGES = 3
HOMES = 6
SETTLE = 4.0
"""Seconds between checks."""

REST = 10.0
"""Seconds for start-up work and PostgreSQL's vacuum."""

Pages = Callable[[], Awaitable[float]]


@dataclass(frozen=True)
class Look:
    """Samples in ms, ``ready`` in s, memory in MB, CPU time in % of a core."""

    ready: float
    memory: float
    idle: float
    database: float
    click: list[float]
    inbox: list[float]
    history: list[float]
    todo: list[float]
    mine: list[float]
    home: list[float]

    def scalars(self) -> dict[str, float]:
        return {"ready": self.ready, "memory": self.memory, "idle": self.idle, "database": self.database}


async def look(setting: Setting, url: str, rows: Iterator[Row]) -> Look:
    """Uses `WARM` clicks and one round from ``rows``."""
    size = setting.size
    cookie = await signed_in(url)
    async with serving(url, setting.slack, setting.ground.home) as clicker:
        await clicker.press(take(rows, WARM), at_once=1)
        visits = Visits(setting, clicker, cookie)
        await visits.warm(visits.inbox, visits.history, visits.todo, visits.mine, visits.home)
        await hush(url)
        await asyncio.sleep(REST)
        memory, idle, database = await _at_rest(setting, clicker.pid)
        click = await clicker.press(take(rows, size.clicks), at_once=1, apart=APART)
        await hush(url)
        return Look(
            clicker.ready,
            memory,
            idle,
            database,
            click,
            inbox=await visits.many(visits.inbox),
            history=await visits.many(visits.history),
            todo=await visits.many(visits.todo),
            mine=await visits.many(visits.mine),
            home=[await visits.home() for _ in range(HOMES)][1:],
        )


async def hush(url: str) -> None:
    """Drop pending messages: a channel takes one a second, and the service must be idle now."""
    await asyncio.to_thread(take_back, url)
    await asyncio.sleep(SETTLE)


async def told(url: str) -> None:
    while await asyncio.to_thread(_unsent, url):
        await asyncio.sleep(SETTLE)
    await asyncio.sleep(SETTLE)


def _unsent(url: str) -> bool:
    with owner(url) as connection:
        return (
            connection.execute("SELECT 1 FROM delivery WHERE state = 'pending' LIMIT 1").fetchone()
            is not None
        )


async def signed_in(url: str) -> str:
    async with Database(url, application_name="bench visitor") as db:
        return (await sessions.sign_in(db, GRACE, "openid")).secret


async def _at_rest(setting: Setting, pid: int) -> tuple[float, float, float]:
    service = psutil.Process(pid)
    before, at, of_server = seconds(service), time.monotonic(), server_cpu(setting.ground)
    await asyncio.sleep(setting.size.window)
    passed = time.monotonic() - at
    idle = 100 * (seconds(service) - before) / passed
    database = 100 * (server_cpu(setting.ground) - of_server) / passed
    return service.memory_info().rss / 2**20, idle, database


class Visits:
    """Each method returns milliseconds to the response."""

    def __init__(self, setting: Setting, clicker: Clicker, cookie: str) -> None:
        self._slack = setting.slack
        self._count = setting.size.clicks
        self._clicker = clicker
        self._cookie = cookie

    async def warm(self, *pages: Pages) -> None:
        """Keep first-time look-ups and compilation out of the samples."""
        for page in pages:
            await page()

    async def many(self, page: Pages) -> list[float]:
        """Repeat the page after a few uncounted visits."""
        return [await page() for _ in range(WARM_PAGES + self._count)][WARM_PAGES:]

    async def inbox(self) -> float:
        return await self.page("/inbox", b"Pay order")

    async def history(self) -> float:
        return await self.page("/inbox/history", b"Pay order")

    async def todo(self) -> float:
        """The acknowledgement of `/approvals` contains the list."""
        return await self.command(GRACE.user_id, "", b"Pay order")

    async def mine(self) -> float:
        return await self.command(ADA.user_id, "mine", b"Pay order")

    async def home(self) -> float:
        await asyncio.sleep(PACE + 0.2)
        event = {"type": "app_home_opened", "user": GRACE.user_id, "channel": "D0GRACE", "tab": "home"}
        content = {"type": "event_callback", "team_id": TEAM, "event": event, "event_id": "Ev1"}
        calls = self._slack.web_api.calls
        seen = len(calls)
        begun = time.monotonic()
        await self._clicker.send(self._clicker.signing.event(content))
        async with asyncio.timeout(30):
            while not any(call.method == "views.publish" for call in calls[seen:]):
                await asyncio.sleep(0.002)
        return (time.monotonic() - begun) * 1e3

    async def page(self, path: str, expected: bytes) -> float:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._clicker.port)
        begun = time.monotonic()
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {NAME}={self._cookie}\r\n\r\n".encode()
        )
        status, body = await answer_of(reader)
        taken = (time.monotonic() - begun) * 1e3
        writer.close()
        return _checked(taken, path, status, body, expected)

    async def command(self, user_id: str, text: str, expected: bytes) -> float:
        workspace = self._slack.workspace
        form: Any = self._slack.interactions.command(
            workspace.members[user_id],
            workspace.channels["C0GENERAL"],
            "/approvals",
            text,
            "http://127.0.0.1:9/",
        )
        signed = self._clicker.signing.command(form)
        begun = time.monotonic()
        status, body = await self._clicker.send(signed)
        taken = (time.monotonic() - begun) * 1e3
        return _checked(taken, f"/approvals {text}", status, body, expected)


def _checked(taken: float, what: str, status: int, body: bytes, expected: bytes) -> float:
    if status not in (200, 303) or expected not in body:
        raise RuntimeError(f"{what} was answered {status}: {body[:300]!r}")
    return taken

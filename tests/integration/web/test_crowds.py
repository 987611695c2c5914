"""A key, or somebody without one, cannot use up the connections and open files of the service."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from pathlib import Path

import httpx
import psutil
from sqlalchemy import text

from slackbot.web.http.shares import share_of
from tests.integration.service.conftest import until
from tests.integration.web.crowds import WAYS, Streams, Town, town, waits

FILES = 256
ROOM = FILES // 2
MANY = 200
TOGETHER = 100


async def answer_of(streams: Streams) -> tuple[dict[str, str], dict[str, object]] | None:
    """Headers and JSON of what was answered at once; ``None`` while nothing is."""
    reader, _ = streams
    try:
        async with asyncio.timeout(0.5):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except TimeoutError:
        return None
    lines = [line.partition(": ") for line in head.split("\r\n")[1:] if line]
    headers = {name.lower(): value for name, _, value in lines}
    return headers, json.loads(await reader.readexactly(int(headers["content-length"])))


async def test_waits_beyond_a_keys_share_are_answered_at_once(database_url: str, tmp_path: Path) -> None:
    """With the present state and the time to come again, apart from each other; health, Slack and others are served;
    those that wait are told of the decision; and the log says how many may wait.
    """
    async with town(database_url, tmp_path, FILES) as here:
        await here.serve.says(f"open files let {share_of(ROOM):,} callers of one key wait")
        held = []
        for _ in range(0, MANY, TOGETHER):
            held += await here.hold(await waits(here), TOGETHER)
            await here.is_well()
        answers = await asyncio.gather(*map(answer_of, held))
        early = [each for each in answers if each is not None]
        assert abs(MANY - len(early) - share_of(ROOM)) <= 5
        for headers, state in early:
            assert state["status"] == "waiting"
            assert 5 <= int(headers["retry-after"]) <= 60
            assert headers["connection"] == "close"
        assert len({headers["retry-after"] for headers, _ in early}) > 1  # they do not come back together
        assert here.process.num_fds() < FILES
        async with here.caller(here.greedy) as program:
            assert (await program.delete(f"/pending/{here.request}")).status_code == 200
        waited = [streams for streams, answer in zip(held, answers, strict=True) if answer is None]
        for told in await asyncio.gather(*map(answer_of, waited)):
            assert told is not None
            assert told[1]["status"] == "cancelled"
            assert "retry-after" not in told[0]


async def test_no_way_to_hold_connections_stops_the_service(database_url: str, tmp_path: Path) -> None:
    """Every way by itself, and each on top of all that came before: everybody else is served, and files are left."""
    async with town(database_url, tmp_path, FILES) as here:
        for way in WAYS:
            await here.hold(await way(here), MANY)
            try:
                await here.is_well()
            except (AssertionError, OSError, httpx.HTTPError) as error:
                raise AssertionError(f"{way.__name__} stopped the service: {here.serve.said(5)}") from error
            assert here.process.num_fds() < FILES, way.__name__
        failed = [line for line in here.serve.lines if "Traceback" in line or "http.failed" in line]
        assert failed == []


async def two_thirds_wait(here: Town) -> bool:
    """Whether so much of a key's share can wait now; if not, those who tried leave."""
    held = await here.hold(await waits(here), share_of(ROOM) * 2 // 3)
    if await answer_of(held[-1]) is None:
        return True
    await here.leave()  # places are given back a moment after their connections
    return False


async def test_a_caller_who_left_gives_the_place_back(database_url: str, tmp_path: Path) -> None:
    """Waits of callers who have gone do not count, although their time is not up."""
    async with town(database_url, tmp_path, FILES) as here:
        for _ in range(3):
            await until(lambda: two_thirds_wait(here))
            await here.leave()


async def test_a_caller_who_leaves_before_the_wait_begins_takes_no_place(
    database_url: str, tmp_path: Path
) -> None:
    """Their calls go on once the request can be read, but nobody is there to wait: others of the key wait instead."""
    async with town(database_url, tmp_path, FILES) as here:
        words, most = await waits(here), share_of(ROOM)

        async def all_came() -> bool:
            return callers(here) >= most

        async def most_left() -> bool:
            return callers(here) <= most // 3

        async with here.db.transaction() as tx:
            await tx.execute(text("LOCK TABLE approval_request"))
            await here.hold(words, most)
            await until(all_came)
            await here.leave()
            await until(most_left)
        await until(lambda: two_thirds_wait(here))


def callers(here: Town) -> int:
    """Connections of callers that the service has not closed."""
    known = here.process.net_connections("tcp")
    return sum(
        each.laddr.port == here.serve.port and each.status == psutil.CONN_ESTABLISHED for each in known
    )


def limit(here: Town, soft: int, hard: int) -> None:
    resource.prlimit(here.process.pid, resource.RLIMIT_NOFILE, (soft, hard))


async def test_without_open_files_it_waits_and_comes_back(database_url: str, tmp_path: Path) -> None:
    """Whatever has used them up: nothing spins, one line says so, and those who come are served once there are some."""
    async with town(database_url, tmp_path, FILES) as here:
        await here.is_well()
        limit(here, here.process.num_fds(), FILES)
        await here.hold(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 50)
        await here.serve.says("http.accept_failed")
        before, began = sum(here.process.cpu_times()[:2]), time.monotonic()
        await asyncio.sleep(2.0)  # the measure itself: what it does meanwhile
        assert sum(here.process.cpu_times()[:2]) - before < 0.5 * (time.monotonic() - began)
        limit(here, FILES, FILES)
        await here.is_well()
        assert sum("http.accept_failed" in line for line in here.serve.lines) == 1
        assert await here.serve.stop() == 0
